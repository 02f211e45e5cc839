//! What packages and the book say of a command, made from the command itself: completions, man pages, reference.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::output;

/// Pages of the book are wrapped at this many columns.
const COLUMNS: usize = 118;

/// Completions for a shell, on standard output.
#[derive(clap::Args)]
pub struct Completions {
    /// The shell
    shell: clap_complete::Shell,
}

/// Man pages in a folder.
#[derive(clap::Args)]
pub struct Man {
    /// The folder
    pub dir: PathBuf,
}

/// Reference pages of the book in a folder.
#[derive(clap::Args)]
pub struct Reference {
    /// The folder
    dir: PathBuf,
}

impl Completions {
    /// Prints them.
    pub fn print(&self, mut command: clap::Command) {
        let mut text = Vec::new();
        let name = command.get_name().to_owned();
        clap_complete::generate(self.shell, &mut command, name, &mut text);
        output::bytes(&text);
    }
}

impl Man {
    /// Writes the command's pages in section 8, because it is an administrator's.
    ///
    /// # Errors
    /// When the folder cannot be written to.
    pub fn write(&self, command: clap::Command) -> Result<(), String> {
        // Width and colours of whoever makes them do not matter.
        let mut command = command.disable_help_subcommand(true);
        command.build();
        write_pages(&command, &self.dir).map_err(|e| self.cannot(&e))
    }

    /// Writes another page.
    ///
    /// # Errors
    /// When the folder cannot be written to.
    pub fn write_page(&self, name: &str, page: &[u8]) -> Result<(), String> {
        std::fs::write(self.dir.join(name), page).map_err(|e| self.cannot(&e))
    }

    fn cannot(&self, error: &std::io::Error) -> String {
        format!(
            "cannot write man pages into {}: {error}",
            self.dir.display()
        )
    }
}

fn write_pages(command: &clap::Command, dir: &Path) -> std::io::Result<()> {
    for sub in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        write_pages(sub, dir)?;
    }
    clap_mangen::Man::new(command.clone())
        .section("8")
        .date("")
        .source(concat!("rxlane ", env!("CARGO_PKG_VERSION")))
        .manual("rxlane")
        .generate_to(dir)
        .map(|_| ())
}

impl Reference {
    /// Writes a page.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, name: &str, page: String) -> Result<(), String> {
        let path = self.dir.join(name);
        std::fs::write(&path, page).map_err(|e| format!("cannot write {}: {e}", path.display()))
    }
}

/// The reference page of a command: what it and its subcommands say with `--help`.
pub fn page(command: clap::Command, title: &str) -> String {
    let mut page = format!(
        "# {title}\n\nMade of the command itself by `make docs`. `{} man DIR` writes the same as man pages.\n",
        command.get_name()
    );
    // Environment and width of whoever makes the page do not matter.
    let mut command = command.term_width(COLUMNS).disable_help_subcommand(true);
    command.build();
    add_command(&mut page, &mut command, "");
    page
}

fn add_command(page: &mut String, command: &mut clap::Command, parent: &str) {
    let name = format!("{parent}{}", command.get_name());
    let help = command.render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    let _ = write!(
        page,
        "\n## {name}\n\n```text\n{}\n```\n",
        help.join("\n").trim_end()
    );
    let parent = format!("{name} ");
    for sub in command.get_subcommands_mut().filter(|c| !c.is_hide_set()) {
        add_command(page, sub, &parent);
    }
}
