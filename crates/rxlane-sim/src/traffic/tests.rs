use super::*;

fn stream(pattern: Pattern) -> Stream {
    Stream {
        pps: 1e6,
        pattern,
        shares: vec![0.3, 0.7],
        mix: Mix::Random,
        flows: 4,
        heaviest_flow: 0.0,
        steps: Vec::new(),
        frame: 64,
        link: Bps(10e9),
    }
}

fn take(source: &mut Source, n: usize) -> Vec<Packet> {
    let mut packets = Vec::new();
    source.generate(n, |p| packets.push(p));
    packets
}

#[test]
fn every_pattern_keeps_its_rate_its_shares_and_the_wire_s_distance() {
    for pattern in [
        Pattern::Cbr { jitter: 0.0 },
        Pattern::Cbr { jitter: 0.5 },
        Pattern::Poisson,
        Pattern::OnOff { mean_burst: 8.0 },
        Pattern::Gaps {
            gaps: gaps_of(&[0.0, 1.0, 5.0, 6.0]),
            file: String::new(),
        },
    ] {
        let mut source = Source::new(&stream(pattern.clone()), 1);
        let n = 200_000;
        let packets = take(&mut source, n);
        let rate = n as f64 / packets[n - 1].at.as_s();
        assert!((rate / 1e6 - 1.0).abs() < 0.02, "{pattern:?}: {rate}");
        let high = packets.iter().filter(|p| p.class == 0).count() as f64 / n as f64;
        assert!((high - 0.3).abs() < 0.01, "{pattern:?}: {high}");
        let wire = Bps(10e9).wire_time(64);
        assert!(
            packets.windows(2).all(|w| w[1].at >= w[0].at + wire),
            "{pattern:?}"
        );
    }
}

#[test]
fn an_even_mix_spaces_the_packets_of_a_class_evenly() {
    let even = Stream {
        mix: Mix::Even,
        ..stream(Pattern::Poisson)
    };
    let packets = take(&mut Source::new(&even, 1), 1000);
    let high: Vec<usize> = (0..1000).filter(|i| packets[*i].class == 0).collect();
    assert_eq!(high.len(), 300);
    assert!(high.windows(2).all(|w| (3..=4).contains(&(w[1] - w[0]))));
}

#[test]
fn a_step_changes_the_rate_when_it_is_time() {
    let stepped = Stream {
        steps: vec![(Ps::from_s(0.1), 3.0), (Ps::from_s(0.2), 0.5)],
        ..stream(Pattern::Poisson)
    };
    let packets = take(&mut Source::new(&stepped, 1), 500_000);
    let between = |from: f64, to: f64| {
        let within = |p: &&Packet| (from..to).contains(&p.at.as_s());
        packets.iter().filter(within).count() as f64
    };
    for (from, expected) in [(0.0, 100_000.0), (0.1, 300_000.0), (0.2, 50_000.0)] {
        let came = between(from, from + 0.1);
        assert!((came / expected - 1.0f64).abs() < 0.02, "{from}: {came}");
    }
}

#[test]
fn the_heaviest_flow_has_its_share_and_the_others_share_the_rest() {
    let skewed = Stream {
        heaviest_flow: 0.7,
        ..stream(Pattern::Poisson)
    };
    let packets = take(&mut Source::new(&skewed, 1), 100_000);
    let of = |flow| {
        packets
            .iter()
            .filter(|p| p.class == 1 && p.flow == flow)
            .count() as f64
    };
    let all = packets.iter().filter(|p| p.class == 1).count() as f64;
    assert!((of(0) / all - 0.775).abs() < 0.01, "{}", of(0) / all);
    assert!((of(3) / all - 0.075).abs() < 0.005, "{}", of(3) / all);
}

#[test]
fn cbr_does_not_drift() {
    let mut source = Source::new(&stream(Pattern::Cbr { jitter: 0.0 }), 1);
    let packets = take(&mut source, 1_000_001);
    let (first, last) = (packets[0].at, packets[1_000_000].at);
    assert!((last - first).0.abs_diff(1_000_000 * 1_000_000) < 1000);
}

#[test]
fn flows_are_numbered_without_gaps() {
    let mut source = Source::new(&stream(Pattern::Poisson), 3);
    let mut last = [0u32; 8];
    for p in take(&mut source, 10_000) {
        assert_eq!(p.sequence, last[usize::from(p.flow)] + 1);
        last[usize::from(p.flow)] = p.sequence;
    }
}
