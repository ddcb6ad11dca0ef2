//! A file goes from rank 0 to rank 1 as one message. The handler reads the name, opens the file and writes what comes, while
//! it still comes; memory stays at one block however long the file is.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use barewire::core::{Config, job::Job};
use barewire::fm::{Flow, Fm, Handler, Peer, Stream};

const FILE: Handler = Handler(1);
const DONE: Handler = Handler(2);
const BLOCK_BYTES: usize = 64 << 10;

type Error = Box<dyn std::error::Error>;

async fn receive_file(mut stream: Stream, folder: PathBuf) -> std::io::Result<()> {
    let mut name_len = [0; 2];
    stream.receive(&mut name_len).await;
    let mut name = vec![0; usize::from(u16::from_le_bytes(name_len))];
    stream.receive(&mut name).await;
    let name = Path::new(std::str::from_utf8(&name).map_err(std::io::Error::other)?).file_name();
    let mut file = File::create(folder.join(name.ok_or(std::io::ErrorKind::InvalidInput)?))?;
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        match stream.receive(&mut block).await {
            0 => return Ok(()),
            n => file.write_all(&block[..n])?,
        }
    }
}

fn send_file(fm: &mut Fm, to: Peer, path: &Path) -> Result<(), Error> {
    let mut file = File::open(path)?;
    let name = path.file_name().ok_or("it has no name")?.to_string_lossy();
    let len = 2 + name.len() as u64 + file.metadata()?.len();
    let mut message = fm.begin_message(to, len, FILE)?;
    message.pieces(&[&u16::try_from(name.len())?.to_le_bytes(), name.as_bytes()])?;
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        match file.read(&mut block)? {
            0 => break,
            n => message.piece(&block[..n])?,
        }
    }
    Ok(message.end()?)
}

fn rank_main(mut fm: Fm, from: &Path, to: PathBuf) -> Result<(), Error> {
    let (tell, told) = mpsc::channel();
    fm.register_stream(FILE, move |stream| {
        let to = to.clone();
        async move {
            let (sender, from) = (stream.sender(), stream.from());
            let outcome =
                receive_file(stream, to).await.map_or_else(|e| e.to_string(), |()| "copied".to_owned());
            let _ = sender.send(from, DONE, outcome.as_bytes()).await;
            Flow::Continue
        }
    });
    fm.register(DONE, move |_, message| {
        let _ = tell.send(String::from_utf8_lossy(&message.to_vec()).into_owned());
        Flow::Continue
    });
    if fm.me() == Peer(0) {
        send_file(&mut fm, Peer(1), from)?;
        let mut outcome = None;
        fm.wait(None, || {
            outcome = told.try_recv().ok();
            outcome.is_some()
        })?;
        println!("{}: {}", from.display(), outcome.unwrap_or_default());
        fm.send(Peer(1), DONE, b"bye")?;
    } else {
        fm.wait(None, || told.try_recv().is_ok())?;
    }
    Ok(())
}

fn main() -> Result<(), Error> {
    let folder = std::env::temp_dir().join(format!("barewire-file-copy-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let source = std::env::current_exe()?;
    std::thread::scope(|scope| -> Result<(), Error> {
        for job in Job::threads(2)? {
            let (source, folder) = (&source, folder.clone());
            let fm = Fm::open(job, Config::default())?;
            scope.spawn(move || rank_main(fm, source, folder).expect("both ranks are there"));
        }
        Ok(())
    })?;
    let copy = folder.join(source.file_name().ok_or("it has no name")?);
    assert!(std::fs::read(&source)? == std::fs::read(copy)?, "the copy is the same");
    std::fs::remove_dir_all(folder)?;
    Ok(())
}
