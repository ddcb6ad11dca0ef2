//! A Slurm of one host: its own key, ports and folder, gone when the test ends. Needs root and Debian's packages.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::{Folder, signal, wait_until};

/// A running Slurm.
pub struct Slurm {
    folder: Folder,
    daemons: Vec<Child>,
}

impl Slurm {
    /// Starts the authentication service, the controller and the host's daemon.
    pub fn start() -> Slurm {
        let folder = Folder::new("slurm");
        let root = folder.path().to_owned();
        let at = |name: &str| root.join(name).to_str().unwrap().to_owned();
        for name in ["state", "spool"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        let key: Vec<u8> = (0..64u8).map(|byte| byte.wrapping_mul(97) ^ std::process::id() as u8).collect();
        std::fs::write(at("munge.key"), key).unwrap();
        for private in ["munge.key", ""] {
            let mode = if private.is_empty() { 0o700 } else { 0o400 };
            let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(mode);
            std::fs::set_permissions(folder.path().join(private), mode).unwrap();
        }
        std::fs::write(at("slurm.conf"), configuration(folder.path())).unwrap();
        let mut slurm = Slurm { folder, daemons: Vec::new() };
        let munged = ["socket", "key-file", "pid-file", "log-file", "seed-file"].map(|option| {
            format!("--{option}={}", at(&format!("munge.{}", option.split('-').next().unwrap())))
        });
        slurm.daemon("munged", &[&["--force".to_owned(), "--foreground".to_owned()], &munged[..]].concat());
        wait_until("munged", || Path::new(&at("munge.socket")).exists());
        slurm.daemon("slurmctld", &["-D".to_owned()]);
        slurm.daemon("slurmd", &["-D".to_owned()]);
        wait_until("Slurm's host to be idle", || {
            let listed = slurm.command("sinfo").args(["-h", "-o", "%T"]).output().unwrap();
            String::from_utf8_lossy(&listed.stdout).trim() == "idle"
        });
        slurm
    }

    /// A command of this Slurm.
    pub fn command(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        command.env("SLURM_CONF", self.folder.path().join("slurm.conf")).env_remove(super::MPICH);
        command
    }

    fn daemon(&mut self, name: &str, words: &[String]) {
        let mut command = self.command(name);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let started = command.spawn();
        let started =
            started.unwrap_or_else(|error| panic!("{name}: {error}: install slurmctld slurmd munge"));
        self.daemons.push(started);
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            signal(daemon.id(), "TERM");
            let _ = daemon.wait();
        }
    }
}

fn configuration(folder: &Path) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let (host, folder) = (host.trim(), folder.display());
    let port = 20_000 + std::process::id() % 10_000 * 2;
    format!(
        "ClusterName=barewire\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n\
         AuthInfo=socket={folder}/munge.socket\nSlurmctldPort={port}\nSlurmdPort={}\n\
         StateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/spool\n\
         SlurmctldPidFile={folder}/slurmctld.pid\nSlurmdPidFile={folder}/slurmd.pid\n\
         SlurmctldLogFile={folder}/slurmctld.log\nSlurmdLogFile={folder}/slurmd.log\n\
         ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSelectType=select/linear\nReturnToService=2\n\
         AccountingStorageType=accounting_storage/none\nJobAcctGatherType=jobacct_gather/none\n\
         SlurmdParameters=config_overrides\nNodeName={host} NodeAddr=127.0.0.1 CPUs=64 State=UNKNOWN\n\
         PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:64\n",
        port + 1
    )
}
