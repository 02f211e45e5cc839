//! The screen. It fits into 80 columns and 24 lines, and says everything without colours, too.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row, Table, Wrap};

use super::course::{Course, LATENCY_S};
use super::figures::{bars, share, short};
use super::keys::{Choice, Page};
use crate::snapshot::Snapshot;

const SPARK: u16 = 14;
/// Queues that are shown, so that ports have room below them.
const MOST_QUEUES: usize = 4;

/// What stands out, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    heading: Style,
    bad: Style,
    picked: Style,
}

impl Look {
    /// `colours`: whether there may be any (<https://no-color.org>).
    pub(super) fn new(colours: bool) -> Self {
        let plain = Style::new();
        let bad = plain.add_modifier(Modifier::BOLD);
        Self {
            heading: plain.add_modifier(Modifier::UNDERLINED),
            bad: if colours { bad.fg(Color::Red) } else { bad },
            picked: plain.add_modifier(Modifier::REVERSED),
        }
    }

    fn of(self, is_bad: bool) -> Style {
        if is_bad { self.bad } else { Style::new() }
    }

    /// A rate of what should not happen.
    fn loss(self, rate: f64) -> Span<'static> {
        Span::styled(short(rate), self.of(rate > 0.0))
    }
}

/// Everything.
pub(super) fn draw(
    frame: &mut Frame<'_>,
    course: &Course,
    choice: &Choice,
    trouble: Option<&str>,
    look: Look,
) {
    let [top, rest, bottom] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let keys = match choice.page {
        Page::Router => "q quit  p pause  s sort  up/down pick  enter class  ? help",
        Page::Class | Page::Help => "q back",
    };
    frame.render_widget(Paragraph::new(keys), bottom);
    let Some(now) = course.now() else {
        let text = trouble.unwrap_or("looking for the first time");
        return frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), rest);
    };
    frame.render_widget(head(now, choice, trouble, look), top);
    match choice.page {
        Page::Router => router(frame, rest, now, course, choice, look),
        Page::Class => class(frame, rest, now, course, choice, look),
        Page::Help => {
            frame.render_widget(Paragraph::new(HELP).wrap(Wrap { trim: false }), rest);
        }
    }
}

fn head<'a>(
    now: &'a Snapshot,
    choice: &Choice,
    trouble: Option<&'a str>,
    look: Look,
) -> Paragraph<'a> {
    let daemon = now.daemon.map_or_else(
        || Span::styled("daemon gone, lanes still forwarding", look.bad),
        |pid| Span::raw(format!("running (pid {pid})")),
    );
    let mut first = Line::from(vec![
        Span::raw("rxlane "),
        daemon,
        Span::raw(format!(", {}, Linux {}", now.config_file, now.kernel)),
    ]);
    if choice.paused {
        first.spans.insert(0, Span::styled("PAUSED ", look.bad));
    }
    let refused = now.reload_refused.as_deref();
    let warning = trouble
        .or(refused)
        .or(now.warnings.first().map(String::as_str));
    let second = match warning {
        Some(text) => Line::styled(text, look.bad),
        None => Line::raw(bound(now)),
    };
    Paragraph::new(vec![first, second])
}

fn bound(now: &Snapshot) -> String {
    let longest = now.rt_bound.longest_wait_us;
    match now.rt_bound.t_max_ns {
        Some(ns) => format!(
            "RT waits at most {:.0} us; longest measured {longest:.0} us",
            ns / 1e3
        ),
        None => format!("RT: {}", now.rt_bound.note),
    }
}

fn heading(names: &[&str], look: Look) -> Row<'static> {
    let cells = names.iter().map(|name| (*name).to_owned());
    Row::new(cells).style(look.heading)
}

fn router(
    frame: &mut Frame<'_>,
    area: Rect,
    now: &Snapshot,
    course: &Course,
    choice: &Choice,
    look: Look,
) {
    let lines = |n: usize| Constraint::Length(n as u16 + 2);
    let full = course.troubles().len().min(MOST_QUEUES);
    let [top, middle, queued, bottom] = Layout::vertical([
        lines(now.classes.len()),
        lines(now.cores.len()),
        if full > 0 {
            lines(full)
        } else {
            Constraint::Length(0)
        },
        Constraint::Min(0),
    ])
    .areas(area);
    frame.render_widget(classes(now, course, choice, look), top);
    frame.render_widget(cores(now, look), middle);
    if full > 0 {
        frame.render_widget(queues(course, look), queued);
    }
    frame.render_widget(ports(now, course, look), bottom);
}

/// Queues in which packets wait or are lost.
fn queues(course: &Course, look: Look) -> Table<'static> {
    let rows = course.troubles().iter().take(MOST_QUEUES).map(|t| {
        let q = &t.queue;
        let core = || q.core.map(|core| format!("core {core}"));
        Row::new(vec![
            Span::raw(q.queue.name()),
            Span::raw(q.port.clone().or_else(core).unwrap_or_default()),
            Span::raw(q.class.clone().unwrap_or_default()),
            Span::raw(q.holds.map(|n| n.to_string()).unwrap_or_default()),
            Span::raw(short(t.waited)),
            look.loss(t.lost),
        ])
    });
    let rows: Vec<Row<'static>> = rows.collect();
    let widths = [11, 15, 15, 8, 10, 8].map(Constraint::Length);
    let names = ["queue", "of", "class", "holds", "waited/s", "lost/s"];
    Table::new(rows, widths).header(heading(&names, look))
}

fn classes<'a>(now: &'a Snapshot, course: &Course, choice: &Choice, look: Look) -> Table<'a> {
    let names = choice.classes(course);
    let picked = choice.row(&names);
    let rows = names.iter().enumerate().filter_map(|(i, name)| {
        let class = now.class(name)?;
        let r = course.rates(name);
        let shedding =
            class.at_work == "shed" || (class.lane != "stack" && class.at_work == "pass");
        let row = Row::new(vec![
            Span::raw(class.name.as_str()),
            Span::raw(class.lane.as_str()),
            Span::styled(class.at_work.as_str(), look.of(shedding)),
            Span::raw(short(r.packets)),
            Span::raw(short(r.bytes * 8.0)),
            Span::raw(share(r.express + r.fast, r.packets)),
            look.loss(r.early_drops),
            Span::raw(bars(&course.packets(name, usize::from(SPARK)))),
        ]);
        let style = if i == picked {
            look.picked
        } else {
            Style::new()
        };
        Some(row.style(style))
    });
    let rows: Vec<Row<'a>> = rows.collect();
    let widths = [15, 8, 8, 7, 7, 8, 7, SPARK].map(Constraint::Length);
    let by = format!("by {}", choice.order.name());
    let names = [
        "class", "lane", "now", "pkt/s", "bit/s", "express", "drops/s", &by,
    ];
    Table::new(rows, widths).header(heading(&names, look))
}

fn cores<'a>(now: &Snapshot, look: Look) -> Table<'a> {
    let rows = now.cores.iter().map(|c| {
        let text = if c.overloaded { "yes" } else { "no" };
        Row::new(vec![
            Span::raw(c.core.to_string()),
            Span::styled(text, look.of(c.overloaded)),
            Span::raw(format!("{} ({:.1} s)", c.overloads, c.overloaded_s)),
            Span::raw(format!("{:.1} %", 100.0 * c.idle_share)),
            Span::raw(format!("{} ns", c.service_time_ns)),
            Span::raw(format!("{:.0} us", c.turn_us)),
            Span::raw(format!("{:.0} us", c.longest_wait_us)),
        ])
    });
    let rows: Vec<Row<'a>> = rows.collect();
    let widths = [6, 11, 16, 8, 13, 8, 12].map(Constraint::Length);
    let names = [
        "core",
        "overloaded",
        "times",
        "idle",
        "stack packet",
        "turn",
        "longest wait",
    ];
    Table::new(rows, widths).header(heading(&names, look))
}

fn ports<'a>(now: &'a Snapshot, course: &Course, look: Look) -> Table<'a> {
    let rows = now.ports.iter().map(|p| {
        let rates = course.port(&p.name);
        let reasons: Vec<String> = rates
            .to_kernel
            .iter()
            .map(|(why, rate)| format!("{why} {}", short(*rate)))
            .collect();
        let mode = match &p.mode {
            Some(mode) => Span::raw(mode.as_str()),
            None => Span::styled("absent", look.bad),
        };
        Row::new(vec![
            Span::raw(p.name.as_str()),
            mode,
            Span::raw(short(rates.sent)),
            Span::raw(reasons.join(", ")),
        ])
    });
    let rows: Vec<Row<'a>> = rows.collect();
    let widths = [
        Constraint::Length(15),
        Constraint::Length(8),
        Constraint::Length(9),
        Constraint::Min(0),
    ];
    let names = ["port", "XDP", "express/s", "left to the kernel, per second"];
    Table::new(rows, widths).header(heading(&names, look))
}

/// One class: what it does and why, its course, and its ports.
fn class(
    frame: &mut Frame<'_>,
    area: Rect,
    now: &Snapshot,
    course: &Course,
    choice: &Choice,
    look: Look,
) {
    let names = choice.classes(course);
    let Some(class) = names
        .get(choice.row(&names))
        .and_then(|name| now.class(name))
    else {
        return frame.render_widget(Paragraph::new("There is no such class any more."), area);
    };
    let (n, r) = (&class.counters, course.rates(&class.name));
    let [top, chart, middle, latency, bottom] = Layout::vertical([
        Constraint::Length(3),
        Constraint::Length(2),
        Constraint::Length(10),
        Constraint::Length(2),
        Constraint::Min(0),
    ])
    .areas(area);
    let text = format!(
        "{}: {} lane, {} now, because {}",
        class.name, class.lane, class.at_work, class.why
    );
    frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), top);
    frame.render_widget(
        Paragraph::new(bars(&course.packets(&class.name, usize::from(chart.width)))),
        chart,
    );
    let line = |name: &'static str, total: u64, rate: f64| {
        Row::new(vec![name.to_owned(), total.to_string(), short(rate)])
    };
    let rows = [
        line("packets", n.packets, r.packets),
        line("bytes", n.bytes, r.bytes),
        line("express", n.express, r.express),
        line("fast", n.fast, r.fast),
        line("passed to the stack", n.passed, r.passed),
        line("queued to other cores", n.queued, r.queued),
        line("dropped early", n.early_drops, r.early_drops),
        line("above the rate", n.policed, r.policed),
        line("not trusted", n.untrusted, r.untrusted),
    ];
    let widths = [24, 18, 10].map(Constraint::Length);
    let table =
        Table::new(rows, widths).header(heading(&["", "since the start", "a second"], look));
    frame.render_widget(table, middle);
    frame.render_widget(Paragraph::new(inside(course, &class.name)), latency);
    let ports = now.ports.iter().filter_map(|port| {
        let rates = course.port(&port.name);
        let r = rates.classes.get(&class.name)?;
        Some(Row::new(vec![
            port.name.clone(),
            short(r.packets),
            share(r.express + r.fast, r.packets),
            short(r.early_drops),
        ]))
    });
    let rows: Vec<Row<'_>> = ports.collect();
    let widths = [15, 10, 10, 10].map(Constraint::Length);
    let names = ["received by", "pkt/s", "express", "drops/s"];
    frame.render_widget(
        Table::new(rows, widths).header(heading(&names, look)),
        bottom,
    );
}

/// How long packets of a class were inside of the router lately.
fn inside(course: &Course, class: &str) -> String {
    let lately = format!("inside, last {LATENCY_S:.0} s");
    match course.latency(class) {
        None => "inside: not measured".into(),
        Some(l) if l.measured == 0 => format!("{lately}: nothing measured"),
        Some(l) => format!(
            "{lately}: p50 {:.1} us, p99 {:.1} us, longest {:.1} us, of {}",
            l.p50_us, l.p99_us, l.longest_us, l.measured
        ),
    }
}

const HELP: &str = "\
Classes are those of the configuration, the highest first, with what became of their packets in the last second:

  lane      where its packets go if nothing speaks against it
  now       what happens instead, for now: enter says why
  express   share that left past the stack: within the driver's poll, or through a queueing discipline (fast)
  drops/s   dropped before they cost much, because the core is overloaded

Cores are those that poll: whether they are overloaded now, how often and for how long they have been, what share of the time \
they have nothing to do, what a packet of the stack takes, how long a ring may go without being empty, and the longest that \
express packets have waited. Queues are those in which packets wait or are lost now.

  up, down, j, k   pick a class      enter   the class in detail
  s                sort by priority, packets or drops
  p, space         pause             q, esc  back, or quit";

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::snapshot::example;

    fn course() -> Course {
        let mut course = Course::default();
        for second in 0..4 {
            course.add(second as f64, example(2000 * second * second));
        }
        course
    }

    fn drawn(size: (u16, u16), choice: &Choice, trouble: Option<&str>, look: Look) -> TestBackend {
        let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
        terminal
            .draw(|frame| draw(frame, &course(), choice, trouble, look))
            .unwrap();
        terminal.backend().clone()
    }

    fn screen(choice: &Choice, trouble: Option<&str>) -> String {
        drawn((80, 24), choice, trouble, Look::new(true)).to_string()
    }

    #[test]
    fn all_of_a_router_fits_into_80_columns_and_24_lines() {
        let seen = screen(&Choice::default(), None);
        for part in [
            "running (pid 7)",
            "RT waits at most 120 us",
            "voice           express  forward  10.0k",
            "100 %",
            "▂▅█",
            "0      yes         2 (1.5 s)",
            "lan0",
            "ttl 1.00k",
            "qdisc       lan0",
            "wan0            absent",
            "q quit",
        ] {
            assert!(seen.contains(part), "{part}:\n{seen}");
        }
    }

    #[test]
    fn a_class_says_why_it_does_what_it_does() {
        let choice = Choice {
            page: Page::Class,
            class: Some("rest".into()),
            ..Choice::default()
        };
        let seen = screen(&choice, None);
        for part in [
            "rest: stack lane, shed now, because",
            "dropped early",
            "inside: not measured",
            "received by",
        ] {
            assert!(seen.contains(part), "{part}:\n{seen}");
        }
        let choice = Choice {
            class: Some("voice".into()),
            ..choice
        };
        let seen = screen(&choice, None);
        assert!(seen.contains("p99 2.0 us"), "{seen}");
    }

    #[test]
    fn trouble_and_pauses_are_said_above_everything() {
        let choice = Choice {
            paused: true,
            ..Choice::default()
        };
        let seen = screen(&choice, Some("the router is gone"));
        assert!(
            seen.contains("PAUSED") && seen.contains("the router is gone"),
            "{seen}"
        );
    }

    #[test]
    fn no_screen_is_too_small() {
        for size in [(1, 1), (10, 3), (300, 100)] {
            for page in [Page::Router, Page::Class, Page::Help] {
                let choice = Choice {
                    page,
                    ..Choice::default()
                };
                drawn(size, &choice, None, Look::new(true));
            }
        }
    }

    #[test]
    fn without_colours_nothing_has_one() {
        let screen = drawn((80, 24), &Choice::default(), None, Look::new(false));
        let cells = screen.buffer().content();
        assert!(
            cells
                .iter()
                .all(|c| c.fg == Color::Reset && c.bg == Color::Reset)
        );
    }
}
