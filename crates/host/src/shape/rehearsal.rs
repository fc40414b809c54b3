//! Rehearsal of a change on a temporary device in a temporary network namespace.

use std::thread;

use kernel::{Change, KernelError, Netlink};
use shaping::{Facilities, IFB_QUEUE};
use tc::{Discipline, Handle, Message, Object, Operation, Qdisc, Tree};
use units::Bytes;

use super::observe;

/// Runs `run` in a new network namespace; `None` when this process may not create one.
fn in_new_namespace<T: Send>(run: impl FnOnce() -> T + Send) -> Option<T> {
    let namespace = kernel::new_namespace().ok()?;
    thread::scope(|scope| {
        let inside = || {
            kernel::enter_namespace(&namespace).ok()?;
            Some(run())
        };
        scope.spawn(inside).join().ok()?
    })
}

fn stage(index: u32) -> Change {
    Change::AddIfb { name: format!("stage{index}"), index, tx_queue_len: IFB_QUEUE }
}

/// The facilities of this kernel. Without the privilege to test them, few are assumed.
pub(super) fn facilities(bpf: bool) -> Facilities {
    const INDEX: u32 = 1000;
    let attempt = || {
        let discipline = Discipline::FqCodel {
            limit: 1000,
            target: std::time::Duration::from_millis(5),
            interval: std::time::Duration::from_millis(100),
            flows: 16,
            quantum: 1514,
            memory_limit: Bytes::new(1 << 20),
            ecn: true,
        };
        let qdisc = Qdisc { handle: Handle::new(1, 0), parent: Handle::ROOT, discipline };
        let add = Change::Tc { device: INDEX, operation: Operation::Add(Object::Qdisc(qdisc)) };
        Netlink::open().is_ok_and(|mut netlink| netlink.change_all(&[stage(INDEX), add]).is_ok())
    };
    Facilities { fq_codel: in_new_namespace(attempt).unwrap_or(false), bpf }
}

/// Applies changes to stand-ins for the devices with these indexes. Returns success when no rehearsal is possible.
pub(super) fn rehearse(devices: &[u32], changes: &[Change]) -> Result<(), KernelError> {
    let attempt = || {
        let mut netlink = Netlink::open()?;
        let own = |c: &&Change| !matches!(c, Change::AddIfb { .. } | Change::SetUp { .. });
        let all: Vec<Change> =
            devices.iter().map(|index| stage(*index)).chain(changes.iter().filter(own).cloned()).collect();
        netlink.change_all(&all)
    };
    in_new_namespace(attempt).unwrap_or(Ok(()))
}

/// Checks that messages built from a tree restore the same tree; returns the reason if not.
pub(super) fn check_restoration(tree: &Tree, messages: &[Message], index: u32) -> Result<(), String> {
    let attempt = || {
        let mut netlink = Netlink::open().map_err(|e| e.to_string())?;
        let replay = messages.iter().map(|m| Change::Message { device: index, message: m.clone() });
        let all: Vec<Change> = std::iter::once(stage(index)).chain(replay).collect();
        netlink.change_all(&all).map_err(|e| e.to_string())?;
        let (egress, ingress) = observe::traffic_control(&mut netlink, index).map_err(|e| e.to_string())?;
        let found = if observe::root(tree).is_some() { egress } else { ingress };
        match tree.differences(&found).first() {
            None => Ok(()),
            Some(difference) => Err(format!("a trial restored it differently: {difference}")),
        }
    };
    in_new_namespace(attempt).unwrap_or_else(|| Err("a trial needs CAP_SYS_ADMIN".to_owned()))
}
