//! What a browser and a monitoring system see: a page, the status as JSON, and metrics in Prometheus' text format (version 0.0.4).

mod connections;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::{
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS,
};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::status::Question;
use crate::{OverlayError, node::ControlClient};
use connections::Bounded;

/// Connections at once: a few browsers with six each, and who monitors.
const MOST_VISITORS: usize = 64;
/// A connection that moves nothing for so long is closed: several times as long as the page and who monitors wait between two questions.
const IDLE: Duration = Duration::from_secs(75);
/// What asks must have been asked, and answered, within that: longer than the member itself is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// An answer is given again for so long: whoever asks all the time does not keep the member from its work.
const FRESH: Duration = Duration::from_millis(200);

/// Binds the page's socket.
///
/// # Errors
/// The address is not ours or taken.
pub(crate) async fn bind(address: SocketAddr) -> Result<TcpListener, OverlayError> {
    TcpListener::bind(address).await.map_err(OverlayError::io(format!("the status page at {address}")))
}

/// Serves until the runtime ends. `names`: those by which who asks may call this host, beside its addresses and `localhost`.
pub(crate) async fn serve(listener: TcpListener, names: Vec<String>, asker: ControlClient) {
    let status = Answers::new(Question::Status, asker.clone(), Some);
    let measured = Answers::new(Question::Status, asker.clone(), measured);
    let events = Answers::new(Question::Events, asker, Some);
    let names: Arc<[String]> = names.into();
    let router = Router::new()
        .route("/", get(async || Html(include_str!("../assets/page.html"))))
        .route("/page.js", get(async || ([(CONTENT_TYPE, "text/javascript")], include_str!("../assets/page.js"))))
        .route("/page.css", get(async || ([(CONTENT_TYPE, "text/css")], include_str!("../assets/page.css"))))
        .route("/status.json", get(move || answer(status, "application/json")))
        .route("/events.json", get(move || answer(events, "application/json")))
        .route("/metrics", get(move || answer(measured, "text/plain; version=0.0.4")))
        .layer(axum::middleware::from_fn(move |request, next| addressed(Arc::clone(&names), request, next)))
        .layer(axum::middleware::map_response(async |response| secured(response)));
    if let Err(e) = axum::serve(Bounded::new(listener, MOST_VISITORS, IDLE, PATIENCE), router).await {
        tracing::error!("the status page: {e}");
    }
}

/// Headers of every answer: the page runs and loads nothing but its own files, and no other page shows it in a frame.
const SECURITY_HEADERS: [(HeaderName, HeaderValue); 2] = [
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
    ),
];

/// Adds [`SECURITY_HEADERS`].
fn secured(mut response: Response) -> Response {
    response.headers_mut().extend(SECURITY_HEADERS);
    response
}

/// Answers only to who asks for this host by an address, as `localhost` or by a name of the settings: a name that a browser was made to believe is this
/// host's would let a foreign page read what is here (DNS rebinding). That goes for any address of this host: the browser may be in its network.
async fn addressed(names: Arc<[String]>, request: Request, next: Next) -> Response {
    let host = request.headers().get(HOST).map(|h| h.to_str().unwrap_or_default());
    if host.is_some_and(|h| !is_of_this_host(h, &names)) {
        let refusal = "this page is at an address of this host, or at localhost; another name by which it is asked for stands in `http_names` of the settings\n";
        return (StatusCode::MISDIRECTED_REQUEST, refusal).into_response();
    }
    next.run(request).await
}

/// Whether the `Host` of a request names no other than this host: it is an address, whose owner nobody can change, or one of the names.
pub(crate) fn is_of_this_host(host: &str, names: &[String]) -> bool {
    let name = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).map_or(host, |(name, _)| name);
    let address = name.strip_prefix('[').and_then(|n| n.strip_suffix(']')).unwrap_or(name);
    let bare = |name: &str| name.trim_end_matches('.').to_ascii_lowercase();
    let is_named = |allowed: &str| bare(allowed) == bare(name);
    address.parse::<std::net::IpAddr>().is_ok()
        || is_named("localhost")
        || names.iter().any(|allowed| is_named(allowed))
}

/// What a member says that is too busy to answer, or ends: nothing, which must not look like a member without links.
const BUSY: (StatusCode, &str) = (StatusCode::SERVICE_UNAVAILABLE, "the member is busy, or ends");

/// The answers to one question.
struct Answers {
    question: Question,
    asker: ControlClient,
    /// What is made of the JSON.
    shown: fn(String) -> Option<String>,
    /// The last one, and when it was given.
    last: Mutex<Option<(Instant, String)>>,
}

impl Answers {
    fn new(question: Question, asker: ControlClient, shown: fn(String) -> Option<String>) -> Arc<Self> {
        Arc::new(Self { question, asker, shown, last: Mutex::default() })
    }

    /// As it is shown; `None`: the member is too busy, or ends.
    async fn get(&self) -> Option<String> {
        // Who asks meanwhile gets the same.
        let mut last = self.last.lock().await;
        if let Some((at, answer)) = &*last
            && at.elapsed() < FRESH
        {
            return Some(answer.clone());
        }
        let answer = (self.shown)(self.asker.ask(self.question.clone()).await?)?;
        *last = Some((Instant::now(), answer.clone()));
        Some(answer)
    }
}

async fn answer(answers: Arc<Answers>, kind: &'static str) -> Response {
    match answers.get().await {
        Some(text) => ([(CONTENT_TYPE, kind)], text).into_response(),
        None => BUSY.into_response(),
    }
}

/// The metrics of a status.
fn measured(json: String) -> Option<String> {
    serde_json::from_str(&json).ok().map(|status| metrics(&status))
}

/// One metric of links: its name, its kind, what it means, the key in the status, and what one of that is in the metric's unit.
const LINKS: [(&str, &str, &str, &str, f64); 18] = [
    ("link_up", "gauge", "Whether the direct link to the member works.", "up", 1.0),
    (
        "link_rtt_seconds",
        "gauge",
        "Least round trip on the direct link in the last seconds; absent while it is down.",
        "rtt_us",
        1e-6,
    ),
    (
        "link_queueing_delay_seconds",
        "gauge",
        "Largest delay on the link to the member above the least, of the last report; absent while it is down.",
        "queueing_delay_us",
        1e-6,
    ),
    (
        "link_tx_loss_ratio",
        "gauge",
        "Share of the frames to the member that the direct link loses; absent while it is down.",
        "tx_loss",
        1.0,
    ),
    (
        "link_rx_loss_ratio",
        "gauge",
        "Share of the frames from the member that the direct link loses; absent while it is down.",
        "rx_loss",
        1.0,
    ),
    (
        "link_tx_age_seconds",
        "gauge",
        "How long ago something was known to arrive at the member on the direct link; absent: never.",
        "tx_age_s",
        1.0,
    ),
    (
        "link_rx_age_seconds",
        "gauge",
        "How long ago something arrived from the member on the direct link; absent: never.",
        "rx_age_s",
        1.0,
    ),
    (
        "link_tx_confidence_ratio",
        "gauge",
        "How much the loss to the member is trusted: 1 from 50 frames on.",
        "tx_confidence",
        1.0,
    ),
    (
        "link_rx_confidence_ratio",
        "gauge",
        "How much the loss from the member is trusted: 1 from 50 frames on.",
        "rx_confidence",
        1.0,
    ),
    ("link_sent_bytes_total", "counter", "IP bytes sent to the member on the direct link.", "tx_bytes", 1.0),
    ("link_received_bytes_total", "counter", "IP bytes received from the member on the direct link.", "rx_bytes", 1.0),
    ("link_probes_total", "counter", "Probes of losses sent to the member on the direct link.", "probes", 1.0),
    (
        "link_capacity_probes_total",
        "counter",
        "Trains of packets, by which capacity is measured, sent to the member on the direct link.",
        "capacity_probes",
        1.0,
    ),
    (
        "link_tx_capacity_bps",
        "gauge",
        "Bits a second that the link to the member carries, by trains and at most the setting `capacity`; absent: not known.",
        "tx_capacity_bps",
        1.0,
    ),
    (
        "link_rx_capacity_bps",
        "gauge",
        "Bits a second that the link from the member carries, by trains and at most the setting `capacity`; absent: not known.",
        "rx_capacity_bps",
        1.0,
    ),
    (
        "link_tx_capacity_age_seconds",
        "gauge",
        "How long ago a train last told what the link to the member carries; absent: none did.",
        "tx_capacity_age_s",
        1.0,
    ),
    (
        "link_rx_capacity_age_seconds",
        "gauge",
        "How long ago a train last told what the link from the member carries; absent: none did.",
        "rx_capacity_age_s",
        1.0,
    ),
    (
        "link_path_mtu_bytes",
        "gauge",
        "Largest datagram that the link to the member carries, IP bytes.",
        "path_mtu_bytes",
        1.0,
    ),
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
    let help = "Bits a second predicted for one TCP flow on the best way to the member; absent: no way.";
    let _ = writeln!(out, "# HELP longhaul_overlay_predicted_bps {help}\n# TYPE longhaul_overlay_predicted_bps gauge");
    for member in members() {
        let best =
            member.get("routes").and_then(|w| w.get(0)).and_then(|w| w.get("predicted_bps")).and_then(Value::as_u64);
        if let Some(best) = best {
            let _ = writeln!(out, "longhaul_overlay_predicted_bps{{member=\"{}\"}} {best}", name(member));
        }
    }
    let help = "Bits a second of packets that arrived at the member in the last second or so, on all ways together.";
    let _ =
        writeln!(out, "# HELP longhaul_overlay_throughput_bps {help}\n# TYPE longhaul_overlay_throughput_bps gauge");
    for member in members() {
        let paths = member.get("routes").and_then(Value::as_array).into_iter().flatten();
        let each = paths.filter_map(|w| w.get("throughput_bps").and_then(Value::as_u64));
        let carried = each.fold(0, u64::saturating_add);
        let _ = writeln!(out, "longhaul_overlay_throughput_bps{{member=\"{}\"}} {carried}", name(member));
    }
    tunnel_metrics(&mut out, status.get("tunnel").unwrap_or(&Value::Null));
    let help = "IP bits a second that the gossip with all members takes; its bound is the setting `gossip_rate`.";
    let gossip = status.get("gossip_bps").and_then(Value::as_u64).unwrap_or(0);
    let _ = writeln!(
        out,
        "# HELP longhaul_overlay_gossip_bps {help}\n# TYPE longhaul_overlay_gossip_bps gauge\nlonghaul_overlay_gossip_bps {gossip}"
    );
    for (metric, key, help) in [
        ("start_time_seconds", "started_utc_s", "When this member was started, seconds since 1970 UTC."),
        (
            "certificate_expiry_timestamp_seconds",
            "certified_until_utc_s",
            "Until when this member's certificate holds, seconds since 1970 UTC; absent: it has none.",
        ),
    ] {
        let _ = writeln!(out, "# HELP longhaul_overlay_{metric} {help}\n# TYPE longhaul_overlay_{metric} gauge");
        if let Some(value) = status.get(key).and_then(Value::as_u64) {
            let _ = writeln!(out, "longhaul_overlay_{metric} {value}");
        }
    }
    counter_metrics(&mut out, status);
    out
}

/// Counters of the data plane, and numbers of flows.
fn counter_metrics(out: &mut String, status: &Value) {
    for (key, value) in status.get("counters").and_then(Value::as_object).into_iter().flatten() {
        let help = crate::counters::meaning(key);
        let _ = writeln!(
            out,
            "# HELP longhaul_overlay_{key}_total {help}\n# TYPE longhaul_overlay_{key}_total counter\nlonghaul_overlay_{key}_total {value}"
        );
    }
    for (key, help) in [
        ("active", "Flows that were active lately."),
        ("elephants", "Active flows that carried more than a megabyte and have not said that they end."),
    ] {
        let value = status.get("flows").and_then(|f| f.get(key)).and_then(Value::as_u64).unwrap_or(0);
        let _ = writeln!(
            out,
            "# HELP longhaul_overlay_flows_{key} {help}\n# TYPE longhaul_overlay_flows_{key} gauge\nlonghaul_overlay_flows_{key} {value}"
        );
    }
}

/// What this host has of the overlay.
fn tunnel_metrics(out: &mut String, tunnel: &Value) {
    let count = |key: &str| tunnel.get(key).and_then(Value::as_array).map_or(0, Vec::len);
    let is_up = tunnel.get("up").and_then(Value::as_bool).unwrap_or_default();
    for (metric, value, help) in [
        ("tunnel_up", usize::from(is_up), "Whether the tunnel device is up."),
        (
            "tunnel_missing",
            count("missing_addresses") + count("missing_routes"),
            "Addresses and routes of the overlay that this host lacks.",
        ),
        (
            "tunnel_overridden",
            count("other_routes"),
            "Subnets of members to which this host has another route that counts before the overlay's.",
        ),
    ] {
        let name = format!("longhaul_overlay_{metric}");
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}");
    }
}

/// As a label's value.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_forbids_foreign_and_inline_scripts_and_the_page_has_none() {
        let headers = secured(BUSY.into_response()).headers().clone();
        assert_eq!(headers["x-content-type-options"], "nosniff");
        let policy = headers["content-security-policy"].to_str().unwrap();
        let rules: Vec<&str> = policy.split("; ").collect();
        for rule in ["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"] {
            assert!(rules.contains(&rule), "{rule}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        let page = include_str!("../assets/page.html");
        for inline in ["<script>", "<style", " style=", " onload=", " onclick=", "javascript:"] {
            assert!(!page.contains(inline), "{inline}");
        }
    }
}
