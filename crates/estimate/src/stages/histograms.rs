use results::{Decomposition, DelayHistogram, DelaySummary, OneWayDelay};

use crate::OneWayHistogram;

/// Histograms of each stage of the sampled blocks; mergeable over streams.
#[derive(Debug, Clone, Default)]
pub struct StageHistograms {
    /// Blocks with at least one stage.
    pub(super) samples: u64,
    pub(super) socket_buffer: DelayHistogram,
    pub(super) qdisc: DelayHistogram,
    pub(super) network: DelayHistogram,
    pub(super) receiver_app: DelayHistogram,
    /// One-way delay of the blocks, driver to kernel.
    pub(super) one_way: OneWayHistogram,
    /// One-way delay of the echoes, read to read.
    pub(super) one_way_return: OneWayHistogram,
    /// Delays that the error of the clock readings made negative; they are not recorded.
    pub(super) negative: u64,
    /// Timestamps that precede their predecessor by more than the clock error; their delays are left out.
    pub(super) backwards: u64,
    /// Remarks for the reader beside the missing stages.
    pub(super) remarks: Vec<String>,
}

impl StageHistograms {
    /// Adds the samples of another stream.
    pub fn merge(&mut self, other: &Self) {
        self.samples += other.samples;
        self.socket_buffer.merge(&other.socket_buffer);
        self.qdisc.merge(&other.qdisc);
        self.network.merge(&other.network);
        self.receiver_app.merge(&other.receiver_app);
        self.one_way.merge(&other.one_way);
        self.one_way_return.merge(&other.one_way_return);
        self.negative += other.negative;
        self.backwards += other.backwards;
        self.remarks.extend_from_slice(&other.remarks);
    }

    /// One-way delay of the blocks, from the sender's driver to the receiver's kernel; `None` without compared clocks.
    pub fn one_way(&self) -> Option<OneWayDelay> {
        self.one_way.summary()
    }

    /// One-way delay of the echoes, from the receiving application's read to the sender's read.
    pub fn one_way_return(&self) -> Option<OneWayDelay> {
        self.one_way_return.summary()
    }

    /// The record, with a text for each stage that has no samples.
    pub fn decomposition(&self) -> Decomposition {
        let mut missing = Vec::new();
        let mut stage = |h: &DelayHistogram, name: &str, needs: &str| -> Option<DelaySummary> {
            let summary = h.summary();
            if summary.is_none() {
                missing.push(format!("{name}: needs {needs}, of which none arrived"));
            }
            summary
        };
        let (scheduled, sent) = ("SOF_TIMESTAMPING_TX_SCHED", "SOF_TIMESTAMPING_TX_SOFTWARE");
        let socket_buffer = stage(&self.socket_buffer, "socket_buffer", scheduled);
        let qdisc = stage(&self.qdisc, "qdisc", &format!("both {scheduled} and {sent}"));
        let network = stage(&self.network, "network", &format!("both {sent} and SOF_TIMESTAMPING_TX_ACK"));
        let receiver_app = stage(&self.receiver_app, "receiver_app", "the receiver's residence times");
        missing.extend(self.left_out());
        missing.extend_from_slice(&self.remarks);
        Decomposition { samples: self.samples, socket_buffer, qdisc, network, receiver_app, missing }
    }

    /// Remarks on missing or corrected delays, with the reason.
    fn left_out(&self) -> impl Iterator<Item = String> {
        let impossible = self.one_way.discarded() + self.one_way_return.discarded();
        [
            (
                self.backwards,
                "timestamps went backwards by more than the clocks are read apart; their delays are left out",
            ),
            (self.negative, "delays were below zero by no more than the clocks are read apart and count as none"),
            (impossible, "one-way delays were below zero by more than the clocks' bound and are left out"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
    }
}
