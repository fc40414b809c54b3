//! What a browser and a monitoring system see: a page, the status as JSON, and metrics in Prometheus' text format (version 0.0.4).

mod visitors;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::status::Question;
use crate::{OverlayError, node::Asker};
use visitors::Bounded;

/// Connections at once: a few browsers with six each, and who monitors.
const MOST_VISITORS: usize = 64;
/// A connection that moves nothing for so long is closed: several times as long as the page and who monitors wait between two questions.
const IDLE: Duration = Duration::from_secs(75);
/// An answer is given again for so long: whoever asks all the time does not keep the member from its work.
const FRESH: Duration = Duration::from_millis(200);

/// Binds the page's socket.
///
/// # Errors
/// The address is not ours or taken.
pub(crate) async fn bind(address: SocketAddr) -> Result<TcpListener, OverlayError> {
    TcpListener::bind(address).await.map_err(OverlayError::io(format!("the status page at {address}")))
}

/// Serves until the runtime ends.
pub(crate) async fn serve(listener: TcpListener, asker: Asker) {
    let status = Answers::new(Question::Status, asker.clone());
    let (metrics, events) = (Arc::clone(&status), Answers::new(Question::Events, asker));
    let router = Router::new()
        .route("/", get(async || Html(include_str!("../assets/page.html"))))
        .route("/page.js", get(async || ([(CONTENT_TYPE, "text/javascript")], include_str!("../assets/page.js"))))
        .route("/page.css", get(async || ([(CONTENT_TYPE, "text/css")], include_str!("../assets/page.css"))))
        .route("/status.json", get(move || answer(status)))
        .route("/events.json", get(move || answer(events)))
        .route("/metrics", get(move || measured(metrics)));
    if let Err(e) = axum::serve(Bounded::new(listener, MOST_VISITORS, IDLE), router).await {
        tracing::error!("the status page: {e}");
    }
}

/// What a member says that is too busy to answer, or ends: nothing, which must not look like a member without links.
const BUSY: (StatusCode, &str) = (StatusCode::SERVICE_UNAVAILABLE, "the member is busy, or ends");

/// The answers to one question.
struct Answers {
    question: Question,
    asker: Asker,
    /// The last one, and when it was given.
    last: Mutex<Option<(Instant, String)>>,
}

impl Answers {
    fn new(question: Question, asker: Asker) -> Arc<Self> {
        Arc::new(Self { question, asker, last: Mutex::default() })
    }

    /// As JSON; `None`: the member is too busy, or ends.
    async fn get(&self) -> Option<String> {
        // Who asks meanwhile gets the same.
        let mut last = self.last.lock().await;
        if let Some((at, answer)) = &*last
            && at.elapsed() < FRESH
        {
            return Some(answer.clone());
        }
        let answer = self.asker.ask(self.question.clone()).await?;
        *last = Some((Instant::now(), answer.clone()));
        Some(answer)
    }
}

async fn answer(answers: Arc<Answers>) -> Response {
    match answers.get().await {
        Some(json) => ([(CONTENT_TYPE, "application/json")], json).into_response(),
        None => BUSY.into_response(),
    }
}

async fn measured(answers: Arc<Answers>) -> Response {
    match answers.get().await.and_then(|json| serde_json::from_str(&json).ok()) {
        Some(status) => ([(CONTENT_TYPE, "text/plain; version=0.0.4")], metrics(&status)).into_response(),
        None => BUSY.into_response(),
    }
}

/// One metric of links: its name, its kind, what it means, the key in the status, and what one of that is in the metric's unit.
const LINKS: [(&str, &str, &str, &str, f64); 18] = [
    ("link_up", "gauge", "Whether the direct link to the member works.", "up", 1.0),
    ("link_rtt_seconds", "gauge", "Least round trip of the last seconds.", "rtt_us", 1e-6),
    (
        "link_queue_seconds",
        "gauge",
        "Largest delay on the way to the member above the least, of the last report.",
        "queued_us",
        1e-6,
    ),
    ("link_loss_to_ratio", "gauge", "Share of the frames to the member that are lost.", "loss_to", 1.0),
    ("link_loss_from_ratio", "gauge", "Share of the frames from the member that are lost.", "loss_from", 1.0),
    (
        "link_age_to_seconds",
        "gauge",
        "How long ago something was known to arrive at the member; absent: never.",
        "age_to_s",
        1.0,
    ),
    (
        "link_age_from_seconds",
        "gauge",
        "How long ago something arrived from the member; absent: never.",
        "age_from_s",
        1.0,
    ),
    (
        "link_confidence_to_ratio",
        "gauge",
        "How much the loss to the member is trusted: 1 from 50 frames on.",
        "confidence_to",
        1.0,
    ),
    (
        "link_confidence_from_ratio",
        "gauge",
        "How much the loss from the member is trusted: 1 from 50 frames on.",
        "confidence_from",
        1.0,
    ),
    ("link_sent_bytes_total", "counter", "IP bytes sent to the member.", "bytes_to", 1.0),
    ("link_received_bytes_total", "counter", "IP bytes received from the member.", "bytes_from", 1.0),
    ("link_probes_total", "counter", "Probes sent to the member.", "probes", 1.0),
    ("link_trains_total", "counter", "Trains sent to the member.", "trains", 1.0),
    ("link_capacity_to_bps", "gauge", "What the link to the member carries, by trains.", "capacity_to_bps", 1.0),
    ("link_capacity_from_bps", "gauge", "What the link from the member carries, by trains.", "capacity_from_bps", 1.0),
    (
        "link_capacity_age_to_seconds",
        "gauge",
        "How long ago a train last told what the link to the member carries; absent: none did.",
        "capacity_age_to_s",
        1.0,
    ),
    (
        "link_capacity_age_from_seconds",
        "gauge",
        "How long ago a train last told what the link from the member carries; absent: none did.",
        "capacity_age_from_s",
        1.0,
    ),
    ("link_datagram_bytes", "gauge", "Largest datagram to the member, IP bytes.", "datagram", 1.0),
];

/// The status as metrics.
pub(crate) fn metrics(status: &Value) -> String {
    let mut out = String::new();
    let members = || status.get("members").and_then(Value::as_array).into_iter().flatten();
    let name = |m: &Value| escaped(m.get("name").and_then(Value::as_str).unwrap_or_default());
    for (metric, kind, help, key, unit) in LINKS {
        let _ = writeln!(out, "# HELP longhaul_overlay_{metric} {help}\n# TYPE longhaul_overlay_{metric} {kind}");
        for member in members() {
            let value = member.get("link").and_then(|l| l.get(key));
            if let Some(value) = value.and_then(|v| v.as_f64().or_else(|| v.as_bool().map(|b| f64::from(u8::from(b)))))
            {
                let _ = writeln!(out, "longhaul_overlay_{metric}{{member=\"{}\"}} {}", name(member), value * unit);
            }
        }
    }
    let help = "Rate predicted for one TCP flow on the best way to the member; absent: no way.";
    let _ = writeln!(out, "# HELP longhaul_overlay_predicted_bps {help}\n# TYPE longhaul_overlay_predicted_bps gauge");
    for member in members() {
        let best =
            member.get("ways").and_then(|w| w.get(0)).and_then(|w| w.get("predicted_bps")).and_then(Value::as_u64);
        if let Some(best) = best {
            let _ = writeln!(out, "longhaul_overlay_predicted_bps{{member=\"{}\"}} {best}", name(member));
        }
    }
    let help = "What the gossip with all members takes, of IP; its bound is the member's gossip_rate.";
    let gossip = status.get("gossip_bps").and_then(Value::as_u64).unwrap_or(0);
    let _ = writeln!(
        out,
        "# HELP longhaul_overlay_gossip_bps {help}\n# TYPE longhaul_overlay_gossip_bps gauge\nlonghaul_overlay_gossip_bps {gossip}"
    );
    for (key, value) in status.get("counters").and_then(Value::as_object).into_iter().flatten() {
        let help = crate::counters::meaning(key);
        let _ = writeln!(
            out,
            "# HELP longhaul_overlay_{key}_total {help}\n# TYPE longhaul_overlay_{key}_total counter\nlonghaul_overlay_{key}_total {value}"
        );
    }
    for (key, help) in [
        ("active", "Flows that were active lately."),
        ("elephants", "Those of them that carried more than a megabyte."),
    ] {
        let value = status.get("flows").and_then(|f| f.get(key)).and_then(Value::as_u64).unwrap_or(0);
        let _ = writeln!(
            out,
            "# HELP longhaul_overlay_flows_{key} {help}\n# TYPE longhaul_overlay_flows_{key} gauge\nlonghaul_overlay_flows_{key} {value}"
        );
    }
    out
}

/// As a label's value.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
