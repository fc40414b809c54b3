//! Methods selected by their names.

use estimate::probe::{Known, MethodName, NamedMethod, Run};
use results::estimate::{Caveat, EstimateResult};
use units::{Bytes, Duration};

use crate::path::{Cross, Hop, VirtualPath, mbps};

/// Record of a method on an idle path of 20 Mb/s.
fn result(name: MethodName, known: Known, budget: u64) -> EstimateResult {
    let mut path = VirtualPath::new(1, &[Hop::new(20_000_000, Cross::Idle)]);
    let mut method = NamedMethod::new(name, false, path.known(), known, budget).unwrap();
    let outcome = path.run_within(&mut method, budget);
    let (packets, bytes) = (path.packets, Bytes::new(path.bytes));
    method.result(&Run { outcome, packets, bytes, elapsed: Duration::ZERO, error: None })
}

#[test]
fn squeezed_pairs_measure_the_capacity_first_unless_it_is_known() {
    let alone = result(MethodName::SqueezedPairs, Known::default(), u64::MAX);
    let known = Known { capacity: Some(mbps(20.0)), expected: None };
    let after = result(MethodName::SqueezedPairs, known, u64::MAX);
    assert!(alone.squeezed.is_some() && after.squeezed.is_some(), "{alone:?} {after:?}");
    // Two trains of 30 packets of ADR.
    assert_eq!(alone.packets, after.packets + 60);
    // The budget ends before the first train, so that there are no pairs.
    let none = result(MethodName::SqueezedPairs, Known::default(), 40_000);
    assert!(none.squeezed.is_none() && none.estimate.is_none(), "{none:?}");
    assert!(none.caveats.contains(&Caveat::BudgetSpent), "{none:?}");
}

#[test]
fn every_method_with_trains_writes_its_name() {
    let path = VirtualPath::new(1, &[Hop::new(20_000_000, Cross::Idle)]).known();
    for name in MethodName::KNOWN {
        let method = NamedMethod::new(name, false, path, Known::default(), 1_000_000);
        assert_eq!(method.is_none(), matches!(name, MethodName::Tcp | MethodName::ShortTcp), "{name:?}");
        if method.is_some() {
            assert_eq!(result(name, Known::default(), 1_000_000).method, name.name());
        }
    }
}
