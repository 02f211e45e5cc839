//! The reference pages of the book are what the command says of itself.

#[test]
fn the_reference_pages_are_what_the_program_says() {
    let pages = ["commands.md", "configuration.md", "status.md"];
    test_lab::book::has_pages(env!("CARGO_BIN_EXE_rxlane"), &pages);
}
