//! Each error of an experiment file is reported with its position, its key and a hint.

mod common;

use std::path::Path;

use common::{problems, read_with, set};
use scenario::Options;

/// Replaces one line of a valid file, so that the problem is in a known line.
fn with(line: usize, text: &str) -> String {
    let mut lines: Vec<&str> = VALID.lines().collect();
    lines[line - 1] = text;
    lines.join("\n")
}

const VALID: &str = r#"duration = "60s"
nodes = ["sender", "receiver", "other"]
[links.path]
between = ["sender", "receiver"]
rate = "100Mb/s"
delay = "10ms"
loss = 0.01
[lans.office]
members = ["receiver", "other"]
delay = "1ms"
[[schedule]]
at = "10s"
link = "path"
loss = 0.05
[flows.f]
from = "sender"
to = "receiver"
start = "5s"
[mice.m]
from = "sender"
to = "receiver"
bytes = "100kB"
every = "200ms"
[programs.p]
node = "sender"
command = ["true"]
[record]
interval = "1s"
[[sweep]]
key = "lans.office.loss"
values = [0.01, 0.02]
[plot]
x = "lans.office.loss"
y = "throughput"
"#;

/// Line number, text of the line, and the expected problem without the file name.
const CASES: &[(usize, &str, &str)] = &[
    (1, "duration = 60", r#":1: duration: 60 has no unit; write it as text with its unit, such as "60ms" or "60s""#),
    (
        1,
        r#"duration = "60""#,
        r#":1: duration: 60 has no unit; write it as text with its unit, such as "60ms" or "60s""#,
    ),
    (1, r#"duration = "0s""#, ":1: duration: a time of zero is not allowed; write a time above zero"),
    (
        1,
        r#"duration = "60 parsecs""#,
        r#":1: duration: `60 parsecs` has an unknown unit; expected ns, us, ms, s, m, h, d or w; write a time such as "93.5ms" or "120s""#,
    ),
    (
        1,
        "duration = 60s",
        r#":1: cannot be read: string values must be quoted, expected literal string; the file is TOML: texts such as "10ms" stand in quotes"#,
    ),
    (1, r#"duration = "10000h""#, ":1: duration: a run of 36000000 s is too long; at most a week: 168h"),
    (
        1,
        "",
        r#": duration: is missing; write how long it runs: duration = "60s"; it may be left out when every flow has an end in time"#,
    ),
    (
        1,
        r#"duration = "60s"
repeat = 0"#,
        ":2: repeat: 0 is out of range; write a whole number from 1 to 1000",
    ),
    (
        1,
        r#"duration = "60s"
seed = -1"#,
        ":2: seed: -1 is out of range; write a whole number from 0 to 9223372036854775807",
    ),
    (
        1,
        r#"duration = "60s"
name = "a b""#,
        ":2: name: `a b` is not a valid name; use letters, digits, - and _, a letter first, at most 63 of them",
    ),
    (
        1,
        r#"duration = "60s"
duration = "61s""#,
        r#":2: cannot be read: duplicate key; the file is TOML: texts such as "10ms" stand in quotes"#,
    ),
    (
        1,
        r#"duration = "60s"
seed = 99999999999999999999"#,
        ":2: 99999999999999999999 is too large; write a number below 2^63",
    ),
    (
        1,
        r#"duration = "60s"
x = nan"#,
        ":2: nan is not finite; write a finite number",
    ),
    (
        1,
        r#"duration = "60s"
durations = "61s""#,
        ":2: durations: is an unknown key; did you mean `duration`? known: about, congestion, defaults, duration, estimates, flows, lans, links, mice, name, nodes, overlay, parameters, plot, programs, published, record, repeat, schedule, seed, sweep, validity, variants",
    ),
    (
        2,
        r#"nodes = ["sender", "receiver", "sender"]"#,
        ":2: nodes.2: there are two nodes `sender`; give each its own name\n:9: lans.office.members.1: there is no node `other`; known: sender, receiver",
    ),
    (
        2,
        r#"nodes = ["sender", "receiver", "localhost"]"#,
        ":2: nodes.2: the name `localhost` is reserved; give it another name\n:9: lans.office.members.1: there is no node `other`; known: sender, receiver",
    ),
    (
        2,
        r#"nodes = { sender = {}, receiver = {}, other = { sysctl = { "kernel.hostname" = "x" } } }"#,
        ":2: nodes.other.sysctl.kernel.hostname: only settings below net. belong to a network namespace; this one would change the whole host; leave it out, or set it on the host yourself",
    ),
    (
        2,
        "nodes = { sender = {}, receiver = {}, other = { sysctl = { net.ipv4.tcp_sack = 0 } } }",
        r#":2: nodes.other.sysctl.net: only settings below net. belong to a network namespace; this one would change the whole host; leave it out, or set it on the host yourself
:2: nodes.other.sysctl.net: is a table; put the key in quotes: "net.ipv4.tcp_rmem" = "...""#,
    ),
    (
        2,
        r#"nodes = { sender = {}, receiver = {}, other = { sysctl = { "net..x" = 1 } } }"#,
        ":2: nodes.other.sysctl.net..x: is not a sysctl key; write it as `sysctl -a` does",
    ),
    (
        2,
        r#"nodes = { sender = {}, receiver = {}, other = { ip = "10.0.0.1" } }"#,
        ":2: nodes.other.ip: is an unknown key; known: shape, sysctl",
    ),
    (
        2,
        "nodes = { sender = {}, receiver = {}, other = 5 }",
        ":2: nodes.other: is a whole number, not a table; write [nodes.other]",
    ),
    (
        4,
        r#"between = ["sender", "reciever"]"#,
        ":4: links.path.between.1: there is no node `reciever`; did you mean `receiver`? known: sender, receiver, other",
    ),
    (4, r#"between = ["sender", "sender"]"#, ":4: links.path.between: both ends are the same node; name two nodes"),
    (
        4,
        r#"between = ["sender", "receiver", "other"]"#,
        ":4: links.path.between: a link has two ends, not 3; for more than two nodes use a LAN",
    ),
    (4, r#"between = "sender""#, ":4: links.path.between: is a text, not a list; write it in brackets: [ ... ]"),
    (4, "", r#":3: links.path.between: is missing; write the two nodes: between = ["a", "b"]"#),
    (
        4,
        r#"members = ["sender", "receiver"]"#,
        r#":3: links.path.between: is missing; write the two nodes: between = ["a", "b"]
:4: links.path.members: belongs to a LAN; write [lans.path], or use between"#,
    ),
    (
        5,
        r#"rate = "0""#,
        ":5: links.path.rate: a rate of zero carries nothing; use outage in the schedule, or leave rate out for no limit",
    ),
    (
        5,
        "rate = 100",
        r#":5: links.path.rate: 100 has no unit; write it as text with its unit, such as "100Mb/s" or "100kb/s""#,
    ),
    (
        5,
        r#"rate = "100MB/s""#,
        r#":5: links.path.rate: `100MB/s` has an unknown unit; expected b/s, kb/s, Mb/s, Gb/s or Tb/s (bits, not bytes); write a rate in bits per second, such as "10Mb/s""#,
    ),
    (
        5,
        r#"rate = "-1Mb/s""#,
        r#":5: links.path.rate: `-1Mb/s` does not start with a number; write a rate in bits per second, such as "10Mb/s""#,
    ),
    (
        5,
        "rate = true",
        r#":5: links.path.rate: is true or false, not a rate; write it as text with its unit, such as "10Mb/s""#,
    ),
    (
        5,
        r#"rate = "1Gb/s"
trace = "x.trace""#,
        ":6: links.path.trace: there is a rate as well; keep either rate or trace",
    ),
    (
        5,
        r#"trace = "x.trace""#,
        ":5: links.path.trace: cannot read the trace x.trace: no x.trace; paths are relative to the experiment file",
    ),
    (
        5,
        r#"rates = "1Gb/s""#,
        ":5: links.path.rates: is an unknown key; did you mean `rate`? known: backward, between, cost, delay, duplicate, forward, jitter, loss, loss_list, mtu, overhead, queue, rate, reorder, trace, up",
    ),
    (
        5,
        r#"queue = "1 bdp""#,
        ":5: links.path.queue: a bandwidth-delay product needs a constant rate; give the link a rate, or the queue bytes, packets or a time",
    ),
    (
        6,
        r#"queue = "1 bdp""#,
        ":6: links.path.queue: a bandwidth-delay product needs a delay; give the link a delay, or the queue bytes, packets or a time",
    ),
    (
        6,
        r#"delay = "61s""#,
        ":6: links.path.delay: a delay of 61 s is too long; write at most 60s: beyond it a TCP handshake gives up",
    ),
    (
        6,
        "delay = 10",
        r#":6: links.path.delay: 10 has no unit; write it as text with its unit, such as "10ms" or "10s""#,
    ),
    (
        6,
        r#"queue = "0 packets""#,
        ":6: links.path.queue: `0` is not a valid number of packets; write a whole number above zero",
    ),
    (
        6,
        r#"queue = "0 bdp""#,
        ":6: links.path.queue: `0` is not a valid number of bandwidth-delay products; write a number above zero",
    ),
    (
        6,
        r#"queue = "many""#,
        r#":6: links.path.queue: `many` is not a valid queue limit; write bytes ("24MB"), packets ("1000 packets"), a time ("50ms"), "1 bdp" or "unlimited""#,
    ),
    (
        6,
        "queue = 1000",
        r#":6: links.path.queue: is a whole number, not a text; write bytes ("24MB"), packets ("1000 packets"), a time ("50ms"), "1 bdp" or "unlimited""#,
    ),
    (
        6,
        r#"queue = { limit = "24MB", target = "5ms" }"#,
        r#":6: links.path.queue.target: belongs to CoDel; add discipline = "codel", or leave it out"#,
    ),
    (
        6,
        r#"queue = { discipline = "red" }"#,
        ":6: links.path.queue.discipline: `red` is not a known value; known: tail-drop, codel",
    ),
    (
        6,
        r#"jitter = { amount = "1ms", shape = "pareto" }"#,
        ":6: links.path.jitter.shape: `pareto` is not a known value; known: uniform, normal, exponential",
    ),
    (
        6,
        "reorder = { probability = 0.1 }",
        r#":6: links.path.reorder.by: is missing; write { probability = 0.01, by = "5ms" }"#,
    ),
    (
        6,
        r#"overhead = "atm""#,
        ":6: links.path.overhead: `atm` is not a known value; known: ethernet, ethernet-frame, ip",
    ),
    (6, "overhead = 5000", ":6: links.path.overhead: 5000 is out of range; write a whole number from 0 to 1000"),
    (6, "mtu = 9001", ":6: links.path.mtu: 9001 is out of range; write a whole number from 576 to 9000"),
    (6, "mtu = 500", ":6: links.path.mtu: 500 is out of range; write a whole number from 576 to 9000"),
    (6, "cost = 0", ":6: links.path.cost: 0 is out of range; write a whole number from 1 to 1000000"),
    (
        6,
        "forward = { between = [] }",
        ":6: links.path.forward.between: is an unknown key; known: delay, duplicate, jitter, loss, loss_list, mtu, overhead, queue, rate, reorder, trace, up",
    ),
    (
        7,
        "loss = 1.5",
        r#":7: links.path.loss: 1.5 is not a probability; write a number from 0 to 1, or a percentage such as "0.1%""#,
    ),
    (
        7,
        r#"loss = "150%""#,
        r#":7: links.path.loss: 150% is not a probability; write a number from 0 to 1, or a percentage such as "0.1%""#,
    ),
    (
        7,
        r#"loss = "some""#,
        r#":7: links.path.loss: `some` is not a probability; write a number from 0 to 1, or a percentage such as "0.1%""#,
    ),
    (
        7,
        "loss = -0.1",
        r#":7: links.path.loss: -0.1 is not a probability; write a number from 0 to 1, or a percentage such as "0.1%""#,
    ),
    (
        7,
        "loss = { to_bad = 0.1 }",
        ":7: links.path.loss.to_good: is missing; loss in bursts needs { to_bad = 0.001, to_good = 0.1 }",
    ),
    (
        7,
        "loss_list = [1, -1]",
        ":7: links.path.loss_list.1: -1 is out of range; write a whole number from 0 to 9223372036854775807",
    ),
    (7, "loss_list = 1", ":7: links.path.loss_list: is a whole number, not a list; write it in brackets: [ ... ]"),
    (
        7,
        "duplicate = 2",
        r#":7: links.path.duplicate: 2 is not a probability; write a number from 0 to 1, or a percentage such as "0.1%""#,
    ),
    (8, "[lans.path]", ":31: sweep.0.values.0: there is no `office` in lans; known: path"),
    (8, "[lans.all]", ":31: sweep.0.values.0: there is no `office` in lans; known: all"),
    (9, r#"members = ["receiver"]"#, ":9: lans.office.members: a LAN has at least two members; name two or more nodes"),
    (9, r#"members = ["receiver", "receiver"]"#, ":9: lans.office.members.1: is a member already; name each node once"),
    (
        9,
        r#"between = ["receiver", "other"]"#,
        r#":8: lans.office.members: is missing; write the nodes: members = ["a", "b", "c"]
:9: lans.office.between: belongs to a link; write [links.office], or use members"#,
    ),
    (
        10,
        r#"forward = { delay = "1ms" }"#,
        ":10: lans.office.forward: a LAN has no directions; use links where they differ",
    ),
    (
        12,
        r#"at = "60s""#,
        ":12: schedule.0.at: 60 s is after the end of the run of 60 s; change earlier, or make the duration longer",
    ),
    (12, "", r#":11: schedule.0.at: is missing; write the time of the change: at = "60s""#),
    (13, r#"link = "paht""#, ":13: schedule.0.link: there is no link `paht`; did you mean `path`? known: path"),
    (13, r#"link = "office""#, ":13: schedule.0.link: `office` is a LAN, which cannot be named here; use a link"),
    (13, "", r#":11: schedule.0: names no link; add link = "name", or links = "all""#),
    (
        13,
        r#"link = "path"
links = "all""#,
        ":14: schedule.0.links: link is given, too; keep one of them",
    ),
    (13, "links = []", ":13: schedule.0.links: is empty; name at least one"),
    (
        13,
        r#"link = "path"
direction = "up""#,
        ":14: schedule.0.direction: `up` is not a known value; known: both, forward, backward",
    ),
    (14, "", r#":11: schedule.0: changes nothing; add what is to change: loss = 0.05, or outage = "2s""#),
    (
        14,
        r#"loss = 0.05
outage = "1s""#,
        ":15: schedule.0.outage: an outage changes nothing else; write a second [[schedule]] for the other keys",
    ),
    (14, r#"outage = "0s""#, ":14: schedule.0.outage: a time of zero is not allowed; write a time above zero"),
    (
        14,
        r#"loss = 0.05
every = "1s""#,
        r#":15: schedule.0.every: belongs to a ramp; add over = "5s", or leave it out"#,
    ),
    (
        14,
        r#"over = "1s"
queue = "1 bdp""#,
        ":14: schedule.0.over: a ramp cannot change queue; a ramp changes rate, delay, jitter and loss; write a second [[schedule]] for the rest",
    ),
    (
        14,
        r#"over = "1s"
rate = "unlimited""#,
        ":14: schedule.0.over: a ramp cannot change an unlimited rate; a ramp changes rate, delay, jitter and loss; write a second [[schedule]] for the rest",
    ),
    (
        14,
        r#"over = "40s"
every = "1ms"
loss = 0.1"#,
        ":11: schedule.0: the schedule makes more than 10000 changes; use longer periods, larger steps (every) or fewer links",
    ),
    (
        14,
        r#"over = "10s"
loss = 0.1
[[schedule]]
at = "15s"
link = "path"
loss = 0.2"#,
        ":16: schedule.1: changes loss during the ramp that ends at 20 s; let the ramp end first, or split it",
    ),
    (
        14,
        r#"period = "5s"
loss = 0.1"#,
        ":14: schedule.0.period: belongs to a loop; add steps = [ ... ], or leave it out",
    ),
    (
        14,
        r#"steps = [ { at = "0s", loss = 0.1 } ]"#,
        r#":11: schedule.0.period: is missing; write how long one round of the steps takes: period = "120s""#,
    ),
    (
        14,
        r#"period = "5s"
steps = []"#,
        r#":11: schedule.0: has no steps; write steps = [ { at = "0s", loss = 0.1 } ]"#,
    ),
    (
        14,
        r#"period = "5s"
steps = [ { at = "5s", loss = 0.1 } ]"#,
        ":15: schedule.0.steps.0.at: is not within the period; times of steps count from the start of each period",
    ),
    (
        14,
        r#"period = "1us"
steps = [ { at = "0s", loss = 0.1 } ]"#,
        ":11: schedule.0: the schedule makes more than 10000 changes; use longer periods, larger steps (every) or fewer links",
    ),
    (
        14,
        r#"period = "5s"
until = "2m"
steps = [ { at = "0s", loss = 0.1 } ]"#,
        ":15: schedule.0.until: 120 s is after the end of the run of 60 s; leave it out to go on until the end",
    ),
    (
        14,
        r#"period = "5s"
loss = 0.1
steps = [ { at = "0s", loss = 0.1, link = "path" } ]"#,
        ":15: schedule.0.loss: is an unknown key; known: at, direction, link, links, period, steps, until\n:16: schedule.0.steps.0.link: holds for the whole loop; write it beside steps",
    ),
    (
        16,
        r#"from = "sendr""#,
        ":16: flows.f.from: there is no node `sendr`; did you mean `sender`? known: sender, receiver, other",
    ),
    (16, r#"from = "receiver""#, ":17: flows.f.to: is the sender; name another node"),
    (16, "", ":15: flows.f.from: is missing; name the node that sends"),
    (
        18,
        r#"start = "60s""#,
        ":18: flows.f.start: starts at 60 s, after the end of the run of 60 s; start it earlier or make the duration longer",
    ),
    (
        18,
        r#"start = "50s"
duration = "20s""#,
        ":19: flows.f.duration: ends at 70 s, after the end of the run of 60 s; end it earlier, or make the duration of the run longer",
    ),
    (
        18,
        r#"start = "50s"
stop = "50s""#,
        ":19: flows.f.stop: stops before it starts; both count from the start of the run",
    ),
    (
        18,
        r#"stop = "61s""#,
        ":18: flows.f.stop: ends at 61 s, after the end of the run of 60 s; end it earlier, or make the duration of the run longer",
    ),
    (
        18,
        r#"stop = "50s"
bytes = "1MB""#,
        ":15: flows.f: has stop and bytes; keep one of them",
    ),
    (
        18,
        r#"protocol = "udp""#,
        r#":15: flows.f.rate: is missing; UDP has no congestion control; write its rate: rate = "10Mb/s""#,
    ),
    (
        18,
        r#"protocol = "udp"
rate = "1Mb/s"
congestion_control = "cubic"
mss = 1400
pacing = "1Mb/s""#,
        ":20: flows.f.congestion_control: UDP has none; leave it out, or use TCP\n:21: flows.f.mss: UDP has no segments; for the size of datagrams write block\n:22: flows.f.pacing: a UDP flow is sent at its rate; write rate",
    ),
    (
        18,
        r#"rate = "1Mb/s""#,
        r#":18: flows.f.rate: a TCP flow finds its own rate; for a ceiling write pacing, or protocol = "udp""#,
    ),
    (
        18,
        r#"arrivals = "poisson""#,
        r#":18: flows.f.arrivals: only datagrams are sent at given times; add protocol = "udp", or leave it out"#,
    ),
    (
        18,
        r#"protocol = "sctp""#,
        ":18: flows.f.protocol: `sctp` is not a known value; did you mean `tcp`? known: tcp, udp",
    ),
    (18, "streams = 129", ":18: flows.f.streams: 129 is out of range; write a whole number from 0 to 128"),
    (18, "dscp = 64", ":18: flows.f.dscp: 64 is out of range; write a whole number from 0 to 63"),
    (18, "mss = 40", ":18: flows.f.mss: 40 is out of range; write a whole number from 88 to 32767"),
    (18, r#"block = "8B""#, ":18: flows.f.block: 8 B is out of range; write 16 to 16777216 bytes"),
    (
        18,
        r#"window = "32""#,
        r#":18: flows.f.window: 32 has no unit; write it as text with its unit, such as "32B" or "32kB""#,
    ),
    (18, r#"window = "3GB""#, ":18: flows.f.window: 3000000000 B is out of range; write 1 to 2147483647 bytes"),
    (
        18,
        r#"congestion_control = "Cubic!""#,
        r#":18: flows.f.congestion_control: `Cubic!` is not a valid name of a congestion control; write it as /proc/sys/net/ipv4/tcp_available_congestion_control does: "cubic""#,
    ),
    (
        18,
        r#"congestion-control = "reno""#,
        ":18: flows.f.congestion-control: is an unknown key; did you mean `congestion_control`? known: block, bytes, congestion_control, count, dscp, duration, from, ipv6, mss, overlay, pacing, protocol, start, stop, streams, to, window",
    ),
    (
        18,
        "ipv6 = true\n[defaults]\nmtu = 1000",
        ":15: flows.f: IPv6 needs an MTU of at least 1280 B; a link from sender to receiver has 1000 B; raise the MTU, or use IPv4",
    ),
    (22, "", r#":19: mice.m.bytes: is missing; the size of each transfer: bytes = "100kB""#),
    (
        23,
        r#"every = "1us""#,
        ":23: mice.m.every: a transfer every 1 us is too often; at least 1ms; use several [mice.*] for more",
    ),
    (
        23,
        r#"every = "1s"
duration = "5s""#,
        ":24: mice.m.duration: is an unknown key; known: arrivals, bytes, congestion_control, every, from, load, start, stop, to",
    ),
    (
        22,
        r#"bytes = { distribution = "websearch" }"#,
        ":22: mice.m.bytes.distribution: `websearch` is not a known value; did you mean `web-search`? known: web-search, data-mining",
    ),
    (
        22,
        r#"bytes = { most = "1MB" }"#,
        r#":22: mice.m.bytes.distribution: is missing; name it: distribution = "web-search" or "data-mining""#,
    ),
    (
        22,
        r#"bytes = { distribution = "web-search", most = "30MB" }"#,
        ":22: mice.m.bytes.most: has no effect: the largest size of web-search is 30.00 MB; make it smaller, or leave it out",
    ),
    (
        23,
        "",
        r#":19: mice.m.every: is missing; the mean time between two starts: every = "200ms"; or a share of the rate: load = 0.2"#,
    ),
    (23, "every = \"1s\"\nload = 0.2", ":23: mice.m.every: follows from the load; keep one of them"),
    (23, "load = 0", ":23: mice.m.load: a load of zero makes no transfers; write a share above zero, such as 0.2"),
    (
        23,
        "load = \"20%\"\nof = \"office\"",
        ":24: mice.m.of: `office` is a LAN, which cannot be named here; use a link",
    ),
    (
        23,
        "every = \"1s\"\nof = \"path\"",
        ":24: mice.m.of: applies to load, which is missing; write load = 0.2, or leave it out",
    ),
    (
        23,
        "load = 0.2\nof = \"side\"\n[links.side]\nbetween = [\"sender\", \"other\"]\nrate = \"1Mb/s\"",
        ":24: mice.m.of: is not on the path from sender to receiver; name a link that the transfers pass, or leave it out",
    ),
    (
        23,
        "load = 0.2\n[links.path.forward]\nrate = \"unlimited\"",
        ":23: mice.m.load: there is no constant rate to take a share of; give a link on the path a rate, or write every instead",
    ),
    (
        23,
        "load = 0.9\n[links.path.forward]\nrate = \"1Gb/s\"",
        ":23: mice.m.load: makes a transfer of 100.0 kB every 888.889 us on average, which is too often; at least 1ms: lower the load or make the transfers larger",
    ),
    (
        18,
        "start = \"5s\"\nevery = \"2s\"",
        ":19: flows.f.every: is the interval between the flows of a group; add count = 20, or leave it out",
    ),
    (18, "count = 1000", ":18: flows.f.count: 1000 is out of range; write a whole number from 1 to 200"),
    (
        18,
        "count = 40\nevery = \"2s\"",
        ":15: flows.f: starts at 78 s, after the end of the run of 60 s; start it earlier or make the duration longer",
    ),
    (
        18,
        "count = 20\nevery = \"2s\"\nduration = \"30s\"",
        ":20: flows.f.duration: ends at 68 s, after the end of the run of 60 s; end it earlier, or make the duration of the run longer",
    ),
    (
        18,
        "count = 20\nevery = \"2s\"\nstop = \"30s\"",
        ":15: flows.f: f-20 would start at 38 s, after its stop; write a duration, or shorten every",
    ),
    (
        18,
        "count = 2\n[programs.f-2]\nnode = \"sender\"\ncommand = [\"true\"]",
        ":15: flows.f: the name of one of its flows is already used by programs.f-2; give each its own name",
    ),
    (
        24,
        "[[published]]\nmetric = \"flow.g.packets\"\nvalue = 80265\nsource = \"table 3.1\"\n[programs.p]",
        ":25: published.0.metric: `flow.g.packets` does not refer to an entry of the file; did you mean `flow.f`? known: run, flow.f, mice.m, bin.m, link.path",
    ),
    (
        24,
        "[[published]]\nmetric = \"run.packets\"\nvalue = \"many\"\n[programs.p]",
        ":24: published.0.source: is missing; name the publication: source = \"table 3.1\"\n:26: published.0.value: `many` is neither a number nor a rate or a time; write a number in the metric's unit, or a rate or a time with its unit",
    ),
    (24, "[programs.f]", ":24: programs.f: the name is already used by flows.f; give each its own name"),
    (25, "", ":24: programs.p.node: is missing; name the node it runs in"),
    (26, "command = []", r#":26: programs.p.command: does not name a program; write command = ["iperf3", "-s"]"#),
    (26, r#"command = " ""#, r#":26: programs.p.command: does not name a program; write command = ["iperf3", "-s"]"#),
    (
        26,
        r#"command = ["true"]
start = "20s"
stop = "10s""#,
        ":24: programs.p: stops before it starts; both count from the start of the run",
    ),
    (
        26,
        r#"command = ["true"]
start = "60s""#,
        ":27: programs.p.start: 60 s is after the end of the run of 60 s; make it earlier, or the duration of the run longer",
    ),
    (28, r#"interval = "1ms""#, ":28: record.interval: an interval of 1 ms is too short; at least 10ms"),
    (28, r#"interval = "2m""#, ":28: record.interval: an interval of 120 s is longer than the run; make it shorter"),
    (28, r#"pcapng = ["pth"]"#, ":28: record.pcapng.0: there is no link `pth`; did you mean `path`? known: path"),
    (28, "snap = 10", r#":28: record.snap: 10 is out of range; write a whole number from 64 to 65535, or "all""#),
    (
        30,
        r#"key = "lans.ofice.loss""#,
        ":31: sweep.0.values.0: there is no `ofice` in lans; did you mean `office`? known: office",
    ),
    (
        30,
        r#"key = "lans.office.los""#,
        ":31: lans.office.los: is an unknown key; did you mean `loss`? known: cost, delay, duplicate, jitter, loss, loss_list, members, mtu, overhead, queue, rate, reorder, trace, up\n:33: plot.x: `lans.office.loss` is not swept; did you mean `lans.office.los`? known: lans.office.los",
    ),
    (
        30,
        r#"key = "links..loss""#,
        ":30: sweep.0.key: `links..loss` is not a valid key; write names with dots between them: links.path.rate",
    ),
    (31, "values = []", ":29: sweep.0: has no values; write at least one, or leave the sweep out"),
    (
        31,
        "values = [0.01, 2]",
        r#":31: lans.office.loss: 2 is not a probability; write a number from 0 to 1, or a percentage such as "0.1%""#,
    ),
    (
        31,
        r#"values = ["$p"]"#,
        ":31: lans.office.loss: there is no parameter `p`; add `p = ...` below [parameters], or write `$$p` for the text itself",
    ),
    (33, r#"x = "links.path.rate""#, ":33: plot.x: `links.path.rate` is not swept; known: lans.office.loss"),
    (
        33,
        r#"x = "lans.office.loss"
series = "lans.office.loss""#,
        ":34: plot.series: is the x axis as well; name another key of the sweep, or leave it out",
    ),
    (
        34,
        r#"y = "latency""#,
        ":34: plot.y: `latency` is not a known value; known: throughput, completion, queue-delay, utilisation",
    ),
    (
        34,
        r#"y = "completion"
models = ["mathis"]"#,
        r#":35: plot.models: the models predict throughput only; write y = "throughput", or leave models out"#,
    ),
];

fn message(line: usize, text: &str) -> String {
    problems(&with(line, text), &Options::default()).replace("x.toml", "")
}

#[test]
fn each_problem_has_its_line_its_key_and_a_hint() {
    assert_eq!(problems(VALID, &Options::default()), "", "the file that the cases change");
    for (line, text, expected) in CASES {
        assert_eq!(message(*line, text), *expected, "line {line}: {text}");
    }
}

#[test]
fn several_problems_are_listed_in_the_order_of_the_file() {
    let text = VALID.replace("100Mb/s", "fast").replace("\"10ms\"", "10").replace("0.05", "5");
    let lines: Vec<_> = read_with(&text, &Options::default()).unwrap_err().as_slice().iter().map(|p| p.line).collect();
    assert_eq!(lines, [Some(5), Some(6), Some(14)]);
}

#[test]
fn at_most_twenty_problems_are_listed_and_the_rest_is_counted() {
    let keys: String = (0..30).map(|i| format!("k{i} = 1\n")).collect();
    let problems = read_with(&(keys + VALID), &Options::default()).unwrap_err();
    assert_eq!((problems.as_slice().len(), problems.more()), (20, 10));
    assert!(problems.to_string().ends_with("and 10 more"));
}

#[test]
fn columns_count_characters() {
    let text = "name = \"ä\"\nabout = \"grüße\"; x";
    let problems = read_with(text, &Options::default()).unwrap_err();
    let problem = &problems.as_slice()[0];
    assert_eq!((problem.line, problem.column), (Some(2), Some(16)));
}

#[test]
fn a_problem_of_an_override_names_the_option() {
    let found = |key, value| problems(VALID, &set(&[(key, value)]));
    for (key, value, expected) in [
        (
            "links.path.rate",
            "0",
            "--set links.path.rate=0: links.path.rate: a rate of zero carries nothing; use outage in the schedule, or leave rate out for no limit",
        ),
        (
            "links.pth.rate",
            "1Mb/s",
            "--set links.pth.rate=1Mb/s: there is no `pth` in links; did you mean `path`? known: path",
        ),
        (
            "links.path.rat",
            "1Mb/s",
            "--set links.path.rat=1Mb/s: links.path.rat: is an unknown key; did you mean `rate`? known: backward, between, cost, delay, duplicate, forward, jitter, loss, loss_list, mtu, overhead, queue, rate, reorder, trace, up",
        ),
        (
            "links..rate",
            "1",
            "--set links..rate=1: `links..rate` is not a valid key; write names with dots between them: links.path.rate",
        ),
        (
            "links.path.rate.x",
            "1",
            "--set links.path.rate.x=1: links.path.rate is a text, it has no `x`; set links.path.rate as a whole",
        ),
        (
            "schedule.1.at",
            "1s",
            "--set schedule.1.at=1s: index `1` is out of range for the list schedule of 1; entries are numbered from 0: schedule.0",
        ),
        (
            "schedule.0.at",
            "90s",
            "--set schedule.0.at=90s: schedule.0.at: 90 s is after the end of the run of 60 s; change earlier, or make the duration longer",
        ),
        (
            "lans.office.loss",
            "0.1",
            "--set lans.office.loss=0.1: the sweep sets lans.office.loss; override the values of the sweep: --set 'sweep.0.values=[...]'",
        ),
        (
            "nodes",
            "[1",
            "--set nodes=[1: cannot be read: unclosed array, expected `]`; write a TOML value, or a text without quotes",
        ),
        (
            "parameters.scale",
            "1",
            "--set parameters.scale=1: there is no `scale` in parameters; the file has no parameters",
        ),
        (
            "variants.x",
            "1",
            "--set variants.x=1: an override cannot change a variant, which has been applied already; set the key itself",
        ),
    ] {
        assert_eq!(found(key, value), expected);
    }
}

#[test]
fn a_problem_in_a_variant_has_its_line_and_an_unknown_variant_is_reported() {
    let variant = |name: &str| Options { variant: Some(name.to_owned()), ..Options::default() };
    let text = format!(
        "{VALID}[variants.short]\n\"links.path.rate\" = \"slow\"\n[variants.wrong]\n\"flows.g.start\" = \"1s\"\n"
    );
    assert_eq!(problems(&text, &Options::default()), "");
    let expected = "x.toml:36: links.path.rate: `slow` does not start with a number; write a rate in bits per second, such as \"10Mb/s\"";
    assert_eq!(problems(&text, &variant("short")), expected);
    let expected = "x.toml:38: variants.wrong.\"flows.g.start\": there is no `g` in flows; did you mean `f`? known: f";
    assert_eq!(problems(&text, &variant("wrong")), expected);
    let expected = "x.toml: variants: there is no variant `shrot`; did you mean `short`? known: short, wrong";
    assert_eq!(problems(&text, &variant("shrot")), expected);
}

#[test]
fn parameters_must_exist_and_have_the_type_of_their_use() {
    let with = |rate: &str| {
        let text = VALID.replace("\"100Mb/s\"", rate) + "[parameters]\nscale = 0.5\nword = \"x\"\nzero = 0\n";
        problems(&text, &Options::default()).replace("x.toml:5: links.path.rate: ", "")
    };
    assert_eq!(with("\"1Gb/s * $scale\""), "");
    assert_eq!(with("\"$scal\""), "there is no parameter `scal`; did you mean `scale`? known: scale, word, zero");
    assert_eq!(with("\"1Gb/s * $word\""), "parameter `word` is a text; only a number can scale");
    assert_eq!(with("\"1Gb/s / $zero\""), "`1Gb/s / $zero` is not finite; do not divide by zero");
    let expected = "`1Gb/s * $scale $scale` cannot be read; write a quantity, then ` * $name` or ` / $name`, such as \"1Gb/s * $scale\"";
    assert_eq!(with("\"1Gb/s * $scale $scale\""), expected);
}

#[test]
fn a_file_with_an_invalid_file_name_needs_a_name() {
    let no_file = |_: &Path| Err(String::new());
    let problems = scenario::read(Path::new("two words.toml"), VALID, &Options::default(), &no_file).unwrap_err();
    let expected = "two words.toml: name: the file name is not a valid experiment name; write name = \"...\", with letters, digits, - and _, a letter first";
    assert_eq!(problems.to_string(), expected);
}

#[test]
fn the_numbers_of_nodes_links_and_points_are_limited() {
    let nodes: Vec<String> = (0..1001).map(|i| format!("\"n{i}\"")).collect();
    let text = format!("duration = \"1s\"\nnodes = [{}]", nodes.join(", "));
    assert!(problems(&text, &Options::default()).contains("1001 nodes are too many; at most 1000"));
    let links: String = (0..2001).map(|i| format!("[links.l{i}]\nbetween = [\"sender\", \"receiver\"]\n")).collect();
    let found = problems(&format!("{VALID}{links}"), &Options::default());
    assert!(found.contains("2003 links and LANs are too many; at most 2000"), "{found}");
    let values: Vec<String> = (0..1001).map(|i| format!("{i}")).collect();
    let text = format!("{VALID}[[sweep]]\nkey = \"seed\"\nvalues = [{}]\n", values.join(","));
    assert_eq!(problems(&text, &Options::default()), "x.toml:29: sweep: 2002 points are too many; at most 1000");
}

#[test]
fn an_annotated_problem_marks_its_key_or_value() {
    let annotated = |line, text: &str| {
        let file = with(line, text);
        read_with(&file, &Options::default()).unwrap_err().annotated()
    };
    let unit = "x.toml:6: links.path.delay: 10 has no unit";
    for (text, mark) in [
        ("delay = \"10\"", "6 | delay = \"10\"\n  |         ^^^^"),
        ("delay = \"10\" # \u{e9}", "6 | delay = \"10\" # \u{e9}\n  |         ^^^^"),
        ("\"dely\" = \"10ms\"", "6 | \"dely\" = \"10ms\"\n  | ^^^^^^"),
    ] {
        let found = annotated(6, text);
        assert!(found.contains(mark), "{text}:\n{found}");
        assert_eq!(found.contains(unit), text.starts_with("delay"), "{found}");
    }
    // A file from elsewhere must not control the terminal.
    let hostile = annotated(6, "delay = \"10\" # \u{1b}[2J");
    assert!(!hostile.contains('\u{1b}'), "{hostile:?}");
    // An override has no line.
    let problems = read_with(VALID, &set(&[("links.path.delay", "10")])).unwrap_err();
    assert_eq!(problems.annotated(), problems.to_string());
}
