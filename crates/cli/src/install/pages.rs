//! Man pages and completions, from the same definitions as the help.

use anyhow::Context;
use clap_complete::Shell;

use super::layout::Layout;

/// Adds the pages and completions; `mpi_names` have a page, too.
pub fn add(layout: &mut Layout, mpi_names: &[&str]) -> anyhow::Result<()> {
    for (name, page) in man_pages()? {
        layout.file(format!("share/man/man1/{name}.1"), page);
    }
    for name in mpi_names {
        layout.file(format!("share/man/man1/{name}.1"), ".so man1/barewire-run.1\n");
    }
    for (shell, path) in [
        (Shell::Bash, "share/bash-completion/completions/barewire"),
        (Shell::Zsh, "share/zsh/site-functions/_barewire"),
        (Shell::Fish, "share/fish/vendor_completions.d/barewire.fish"),
    ] {
        layout.file(path, completions(shell));
    }
    Ok(())
}

/// The completions of one shell.
pub fn completions(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut crate::cli::definition(), "barewire", &mut script);
    script
}

/// A page for the command and one for each command below it, however deep.
fn man_pages() -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let mut command = crate::cli::definition().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    add_pages(&command, &mut pages)?;
    Ok(pages)
}

fn add_pages(command: &clap::Command, pages: &mut Vec<(String, Vec<u8>)>) -> anyhow::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let mut page = Vec::new();
    let source = format!("barewire {}", env!("CARGO_PKG_VERSION"));
    let man = clap_mangen::Man::new(command.clone()).source(source);
    man.render(&mut page).context("writing a man page")?;
    pages.push((name, page));
    command.get_subcommands().filter(|sub| !sub.is_hide_set()).try_for_each(|sub| add_pages(sub, pages))
}
