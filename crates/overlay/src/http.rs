//! HTTP server of a member: the status page, status and events as JSON, and metrics in the Prometheus text format
//! (version 0.0.4).

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
use connections::{LimitedListener, Limits};

/// Maximum number of connections: several browsers with six each, and monitoring systems.
const CONNECTIONS_MAX: usize = 64;
/// Time without traffic after which a connection is closed: several times the request interval of the page and of
/// monitoring systems.
const IDLE_TIMEOUT: Duration = Duration::from_secs(75);
/// Maximum time from the first byte of a request to its response; longer than the timeout for the member's reply.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for which a reply is cached, so that frequent requests do not load the controlling thread.
const CACHE_LIFETIME: Duration = Duration::from_millis(200);

/// Binds the socket of the status page.
///
/// # Errors
/// The address is in use or does not belong to this host.
pub(crate) async fn bind(address: SocketAddr) -> Result<TcpListener, OverlayError> {
    TcpListener::bind(address).await.map_err(OverlayError::io(format!("the status page at {address}")))
}

/// Serves until the runtime ends. `names`: allowed host names in requests, in addition to IP addresses and `localhost`.
pub(crate) async fn serve(listener: TcpListener, names: Vec<String>, client: ControlClient) {
    let status = CachedReply::new(Question::Status, client.clone(), Some);
    let metrics = CachedReply::new(Question::Status, client.clone(), metrics_of_json);
    let events = CachedReply::new(Question::Events, client, Some);
    let names: Arc<[String]> = names.into();
    let router = Router::new()
        .route("/", get(async || Html(include_str!("../assets/page.html"))))
        .route("/page.js", get(async || ([(CONTENT_TYPE, "text/javascript")], include_str!("../assets/page.js"))))
        .route("/page.css", get(async || ([(CONTENT_TYPE, "text/css")], include_str!("../assets/page.css"))))
        .route("/status.json", get(move || respond(status, "application/json")))
        .route("/events.json", get(move || respond(events, "application/json")))
        .route("/metrics", get(move || respond(metrics, "text/plain; version=0.0.4")))
        .layer(axum::middleware::from_fn(move |request, next| check_host(Arc::clone(&names), request, next)))
        .layer(axum::middleware::map_response(async |response| with_security_headers(response)));
    let limits = Limits { connections: CONNECTIONS_MAX, idle: IDLE_TIMEOUT, request: REQUEST_TIMEOUT };
    if let Err(e) = axum::serve(LimitedListener::new(listener, limits), router).await {
        tracing::error!("the status page failed: {e}");
    }
}

/// Headers of every response: the page loads and runs only its own files, and no other page can embed it in a frame.
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

fn with_security_headers(mut response: Response) -> Response {
    response.headers_mut().extend(SECURITY_HEADERS);
    response
}

/// Rejects requests whose `Host` is not an IP address, `localhost` or a name of the settings, as protection against DNS
/// rebinding: a foreign page whose name resolves to this host could read the status. The check applies to all
/// addresses, as the browser may be in the same network.
async fn check_host(names: Arc<[String]>, request: Request, next: Next) -> Response {
    let host = request.headers().get(HOST).map(|h| h.to_str().unwrap_or_default());
    if host.is_some_and(|h| !is_of_this_host(h, &names)) {
        let hint =
            "unknown host name; use an IP address or localhost, or add the name to `http_names` in the settings\n";
        return (StatusCode::MISDIRECTED_REQUEST, hint).into_response();
    }
    next.run(request).await
}

/// Whether the `Host` of a request is an IP address, which needs no DNS, `localhost`, or one of the names.
pub(crate) fn is_of_this_host(host: &str, names: &[String]) -> bool {
    let name = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).map_or(host, |(name, _)| name);
    let address = name.strip_prefix('[').and_then(|n| n.strip_suffix(']')).unwrap_or(name);
    let bare = |name: &str| name.trim_end_matches('.').to_ascii_lowercase();
    let is_named = |allowed: &str| bare(allowed) == bare(name);
    address.parse::<std::net::IpAddr>().is_ok()
        || is_named("localhost")
        || names.iter().any(|allowed| is_named(allowed))
}

/// Response without a reply of the member. An empty status would look like a member without links.
const NO_REPLY: (StatusCode, &str) = (StatusCode::SERVICE_UNAVAILABLE, "the member is overloaded or shutting down");

/// The reply to one request, cached for [`CACHE_LIFETIME`].
struct CachedReply {
    question: Question,
    client: ControlClient,
    /// Converts the JSON to the body of the response.
    convert: fn(String) -> Option<String>,
    last: Mutex<Option<(Instant, String)>>,
}

impl CachedReply {
    fn new(question: Question, client: ControlClient, convert: fn(String) -> Option<String>) -> Arc<Self> {
        Arc::new(Self { question, client, convert, last: Mutex::default() })
    }

    /// The converted reply; `None`: the member is overloaded or shutting down.
    async fn get(&self) -> Option<String> {
        // Concurrent requests wait for the lock and get the same reply.
        let mut last = self.last.lock().await;
        if let Some((at, text)) = &*last
            && at.elapsed() < CACHE_LIFETIME
        {
            return Some(text.clone());
        }
        let text = (self.convert)(self.client.ask(self.question.clone()).await?)?;
        *last = Some((Instant::now(), text.clone()));
        Some(text)
    }
}

async fn respond(reply: Arc<CachedReply>, content_type: &'static str) -> Response {
    match reply.get().await {
        Some(text) => ([(CONTENT_TYPE, content_type)], text).into_response(),
        None => NO_REPLY.into_response(),
    }
}

/// The metrics of a status in JSON.
fn metrics_of_json(json: String) -> Option<String> {
    serde_json::from_str(&json).ok().map(|status| metrics(&status))
}

/// Metrics of links: name, type, help text, key in the status, and factor from the unit of the status to that of the
/// metric.
const LINKS: [(&str, &str, &str, &str, f64); 18] = [
    ("link_up", "gauge", "Whether the direct link to the member is up.", "up", 1.0),
    (
        "link_rtt_seconds",
        "gauge",
        "Minimum round-trip time of the direct link in the last seconds; absent while the link is down.",
        "rtt_us",
        1e-6,
    ),
    (
        "link_queueing_delay_seconds",
        "gauge",
        "Maximum queueing delay on the link to the member in the last report; absent while the link is down.",
        "queueing_delay_us",
        1e-6,
    ),
    (
        "link_tx_loss_ratio",
        "gauge",
        "Loss ratio of frames to the member on the direct link; absent while the link is down.",
        "tx_loss",
        1.0,
    ),
    (
        "link_rx_loss_ratio",
        "gauge",
        "Loss ratio of frames from the member on the direct link; absent while the link is down.",
        "rx_loss",
        1.0,
    ),
    (
        "link_tx_age_seconds",
        "gauge",
        "Time since the last confirmed arrival of a frame at the member on the direct link; absent before the first.",
        "tx_age_s",
        1.0,
    ),
    (
        "link_rx_age_seconds",
        "gauge",
        "Time since the last frame from the member on the direct link; absent before the first.",
        "rx_age_s",
        1.0,
    ),
    (
        "link_tx_confidence_ratio",
        "gauge",
        "Confidence in the loss ratio to the member: 1 from 50 frames on.",
        "tx_confidence",
        1.0,
    ),
    (
        "link_rx_confidence_ratio",
        "gauge",
        "Confidence in the loss ratio from the member: 1 from 50 frames on.",
        "rx_confidence",
        1.0,
    ),
    ("link_sent_bytes_total", "counter", "IP bytes sent to the member on the direct link.", "tx_bytes", 1.0),
    ("link_received_bytes_total", "counter", "IP bytes received from the member on the direct link.", "rx_bytes", 1.0),
    ("link_probes_total", "counter", "Loss probes sent to the member on the direct link.", "probes", 1.0),
    (
        "link_capacity_probes_total",
        "counter",
        "Packet trains for capacity estimation sent to the member on the direct link.",
        "capacity_probes",
        1.0,
    ),
    (
        "link_tx_capacity_bps",
        "gauge",
        "Capacity of the link to the member in bits per second, at most the setting `capacity`; absent while unknown.",
        "tx_capacity_bps",
        1.0,
    ),
    (
        "link_rx_capacity_bps",
        "gauge",
        "Capacity of the link from the member in bits per second, at most the setting `capacity`; absent while unknown.",
        "rx_capacity_bps",
        1.0,
    ),
    (
        "link_tx_capacity_age_seconds",
        "gauge",
        "Time since the last capacity estimate of the link to the member; absent before the first.",
        "tx_capacity_age_s",
        1.0,
    ),
    (
        "link_rx_capacity_age_seconds",
        "gauge",
        "Time since the last capacity estimate of the link from the member; absent before the first.",
        "rx_capacity_age_s",
        1.0,
    ),
    ("link_path_mtu_bytes", "gauge", "Path MTU of the link to the member in IP bytes.", "path_mtu_bytes", 1.0),
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
    let help = "Predicted throughput of one TCP flow on the best route to the member in bits per second; absent while unknown.";
    let _ = writeln!(out, "# HELP longhaul_overlay_predicted_bps {help}\n# TYPE longhaul_overlay_predicted_bps gauge");
    for member in members() {
        let best =
            member.get("routes").and_then(|w| w.get(0)).and_then(|w| w.get("predicted_bps")).and_then(Value::as_u64);
        if let Some(best) = best {
            let _ = writeln!(out, "longhaul_overlay_predicted_bps{{member=\"{}\"}} {best}", name(member));
        }
    }
    let help =
        "Throughput of packets delivered to the member over all routes in about the last second, in bits per second.";
    let _ =
        writeln!(out, "# HELP longhaul_overlay_throughput_bps {help}\n# TYPE longhaul_overlay_throughput_bps gauge");
    for member in members() {
        let paths = member.get("routes").and_then(Value::as_array).into_iter().flatten();
        let each = paths.filter_map(|w| w.get("throughput_bps").and_then(Value::as_u64));
        let throughput = each.fold(0, u64::saturating_add);
        let _ = writeln!(out, "longhaul_overlay_throughput_bps{{member=\"{}\"}} {throughput}", name(member));
    }
    tunnel_metrics(&mut out, status.get("tunnel").unwrap_or(&Value::Null));
    let help = "Rate of gossip with all members in IP bits per second; its limit is the setting `gossip_rate`.";
    let gossip = status.get("gossip_bps").and_then(Value::as_u64).unwrap_or(0);
    let _ = writeln!(
        out,
        "# HELP longhaul_overlay_gossip_bps {help}\n# TYPE longhaul_overlay_gossip_bps gauge\nlonghaul_overlay_gossip_bps {gossip}"
    );
    for (metric, key, help) in [
        ("start_time_seconds", "started_utc_s", "Start time of this member, seconds since 1970 UTC."),
        (
            "certificate_expiry_timestamp_seconds",
            "certified_until_utc_s",
            "Expiry time of this member's certificate, seconds since 1970 UTC; absent without a certificate.",
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

/// Metrics of the counters and of the number of flows.
fn counter_metrics(out: &mut String, status: &Value) {
    for (key, value) in status.get("counters").and_then(Value::as_object).into_iter().flatten() {
        let help = crate::counters::meaning(key);
        let _ = writeln!(
            out,
            "# HELP longhaul_overlay_{key}_total {help}\n# TYPE longhaul_overlay_{key}_total counter\nlonghaul_overlay_{key}_total {value}"
        );
    }
    for (key, help) in [
        ("active", "Recently active flows."),
        ("elephants", "Active flows that carried more than a megabyte and have not ended."),
    ] {
        let value = status.get("flows").and_then(|f| f.get(key)).and_then(Value::as_u64).unwrap_or(0);
        let _ = writeln!(
            out,
            "# HELP longhaul_overlay_flows_{key} {help}\n# TYPE longhaul_overlay_flows_{key} gauge\nlonghaul_overlay_flows_{key} {value}"
        );
    }
}

/// Metrics of the overlay's device, addresses and routes on this host.
fn tunnel_metrics(out: &mut String, tunnel: &Value) {
    let count = |key: &str| tunnel.get(key).and_then(Value::as_array).map_or(0, Vec::len);
    let is_up = tunnel.get("up").and_then(Value::as_bool).unwrap_or_default();
    for (metric, value, help) in [
        ("tunnel_up", usize::from(is_up), "Whether the tunnel device is up."),
        (
            "tunnel_missing",
            count("missing_addresses") + count("missing_routes"),
            "Addresses and routes of the overlay that are missing on this host.",
        ),
        (
            "tunnel_overridden",
            count("other_routes"),
            "Subnets of members for which another route of this host overrides the overlay's.",
        ),
    ] {
        let name = format!("longhaul_overlay_{metric}");
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}");
    }
}

/// Escapes a label value.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_response_forbids_foreign_and_inline_scripts_and_the_page_has_none() {
        let headers = with_security_headers(NO_REPLY.into_response()).headers().clone();
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
