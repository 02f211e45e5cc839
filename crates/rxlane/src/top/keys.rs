//! What keys do.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::course::Course;

/// The order of classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Order {
    /// As they are configured: the highest first.
    #[default]
    Priority,
    Packets,
    Drops,
}

impl Order {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Priority => "priority",
            Self::Packets => "packets",
            Self::Drops => "drops",
        }
    }

    fn next(self) -> Self {
        match self {
            Self::Priority => Self::Packets,
            Self::Packets => Self::Drops,
            Self::Drops => Self::Priority,
        }
    }
}

/// What fills the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Page {
    #[default]
    Router,
    Class,
    Help,
}

/// What whoever looks has chosen.
#[derive(Debug, Clone, Default)]
pub(super) struct Choice {
    pub(super) page: Page,
    pub(super) order: Order,
    pub(super) paused: bool,
    /// The class that is picked, by its name: rows change places.
    pub(super) class: Option<String>,
}

impl Choice {
    /// The classes' names in the chosen order.
    pub(super) fn classes(&self, course: &Course) -> Vec<String> {
        let Some(now) = course.now() else {
            return Vec::new();
        };
        let mut names: Vec<String> = now.classes.iter().map(|c| c.name.clone()).collect();
        let by = |name: &str| match self.order {
            Order::Priority => 0.0,
            Order::Packets => course.rates(name).packets,
            Order::Drops => course.rates(name).early_drops,
        };
        // Equal ones stay in the order of their priority.
        names.sort_by(|a, b| by(b).total_cmp(&by(a)));
        names
    }

    /// Which row of these is picked; the first, as long as none was.
    pub(super) fn row(&self, classes: &[String]) -> usize {
        let picked = self.class.as_ref();
        picked
            .and_then(|name| classes.iter().position(|c| c == name))
            .unwrap_or(0)
    }

    /// Returns whether that was all.
    pub(super) fn press(&mut self, key: KeyEvent, course: &Course) -> bool {
        let control_c =
            key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            _ if control_c => return true,
            KeyCode::Char('q') if self.page == Page::Router => return true,
            KeyCode::Char('q') | KeyCode::Esc | KeyCode::Backspace => self.page = Page::Router,
            KeyCode::Char('?' | 'h') => self.page = Page::Help,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('s') => self.order = self.order.next(),
            KeyCode::Enter => {
                self.go(0, course);
                self.page = Page::Class;
            }
            KeyCode::Up | KeyCode::Char('k') => self.go(-1, course),
            KeyCode::Down | KeyCode::Char('j') => self.go(1, course),
            _ => {}
        }
        false
    }

    fn go(&mut self, rows: isize, course: &Course) {
        let classes = self.classes(course);
        let to = self.row(&classes).saturating_add_signed(rows);
        self.class = classes
            .get(to.min(classes.len().saturating_sub(1)))
            .cloned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::example;

    fn course() -> Course {
        let mut course = Course::default();
        course.add(0.0, example(0));
        course.add(1.0, example(1000));
        course
    }

    fn press(choice: &mut Choice, code: KeyCode) -> bool {
        choice.press(KeyEvent::from(code), &course())
    }

    #[test]
    fn a_class_is_picked_and_stays_picked_when_the_order_changes() {
        let mut choice = Choice::default();
        assert_eq!(choice.classes(&course()), ["voice", "rest"]);
        press(&mut choice, KeyCode::Down);
        assert_eq!(choice.class.as_deref(), Some("rest"));
        press(&mut choice, KeyCode::Down);
        assert_eq!(choice.class.as_deref(), Some("rest"), "the last one");
        press(&mut choice, KeyCode::Char('s'));
        assert_eq!(choice.classes(&course()), ["rest", "voice"]);
        press(&mut choice, KeyCode::Enter);
        assert_eq!(choice.page, Page::Class);
        assert_eq!(choice.class.as_deref(), Some("rest"));
    }

    #[test]
    fn q_goes_back_and_then_away_and_control_c_always() {
        let mut choice = Choice::default();
        assert!(!press(&mut choice, KeyCode::Char('?')));
        assert!(!press(&mut choice, KeyCode::Char('q')));
        assert_eq!(choice.page, Page::Router);
        assert!(press(&mut choice, KeyCode::Char('q')));
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        choice.page = Page::Help;
        assert!(choice.press(control_c, &course()));
    }

    #[test]
    fn keys_before_the_first_look_do_no_harm() {
        let mut choice = Choice::default();
        for code in [
            KeyCode::Down,
            KeyCode::Up,
            KeyCode::Enter,
            KeyCode::Char('s'),
        ] {
            assert!(!choice.press(KeyEvent::from(code), &Course::default()));
        }
    }
}
