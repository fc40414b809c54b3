// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The classifier of `longhaul shape`: evaluates a list of rules and returns the class of the first rule that a packet
// matches.
//
// cls_bpf attaches it to a queueing discipline without direct-action, so that the return value is the handle of a
// class, and 0 means no match. crates/bpf fills the maps before it attaches the program; crates/bpf/src/layout.rs
// defines the same structures.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

// Conditions of a rule.
#define MATCH_FAMILY 0x001
#define MATCH_PROTOCOL 0x002
#define MATCH_FROM_PORTS 0x004
#define MATCH_TO_PORTS 0x008
#define MATCH_PORTS 0x010
#define MATCH_DSCP 0x020
#define MATCH_CGROUP 0x040
#define MATCH_USER 0x080
#define MATCH_MOUSE 0x100
#define MATCH_ELEPHANT 0x200
#define MATCH_ANY_PORT (MATCH_FROM_PORTS | MATCH_TO_PORTS | MATCH_PORTS)
#define MATCH_SIZE (MATCH_MOUSE | MATCH_ELEPHANT)
#define MATCH_IP (MATCH_FAMILY | MATCH_PROTOCOL | MATCH_ANY_PORT | MATCH_DSCP | MATCH_SIZE)

// Maximum number of IPv6 extension headers; RFC 8504, section 5.3 permits a host to limit them to 8.
#define EXTENSION_HEADERS_MAX 8
// Maximum number of VLAN tags; IEEE 802.1ad frames have two.
#define VLAN_TAGS_MAX 2

struct settings {
	__u64 limit_bytes;  // maximum bytes of a mouse
	__u64 limit_rate;   // maximum rate of a mouse in bytes per second
	__u64 above_ns;     // longest time for which a mouse may exceed the rate
	__u64 window_ns;    // averaging window of the rate; 0: no rate limit
	__u64 idle_ns;      // idle time after which a flow restarts as a mouse
	__u32 rules;
	__u32 unused;
};

// IPv4 addresses are stored as IPv4-mapped IPv6 addresses (RFC 4291, section 2.5.5.2).
union address {
	__u64 halves[2];
	__be32 words[4];
};

struct rule {
	union address from;
	union address from_mask;
	union address to;
	union address to_mask;
	__u64 dscp;  // one bit per code point
	__u32 origin;  // index in `classes` and `hits`
	__u32 user;
	__u32 cgroup;  // index in `cgroups`
	__u16 from_ports[2];
	__u16 to_ports[2];
	__u16 ports[2];
	__u16 conditions;
	__u8 protocol;
	__u8 family;  // 4 or 6
};

struct flow_key {
	union address from;
	union address to;
	__be16 from_port;
	__be16 to_port;
	__u8 protocol;
	__u8 unused[3];
};

struct flow {
	__u64 bytes;
	__u64 seen_ns;
	__u64 above_since_ns;
	__u64 window_start_ns;
	__u64 window_bytes;
	__u64 elephant;
};

struct hits {
	__u64 packets;
	__u64 bytes;
};

// The loader writes and freezes these settings.
const volatile struct settings settings = {};
// Offset of the clock. Tests set it to avoid waiting; otherwise it is 0.
volatile __u64 clock_offset_ns = 0;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rule);
} rules SEC(".maps");

// Class of each rule in configuration order. Entry 0 is the class of packets that match no rule.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} classes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct hits);
} hits SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} cgroups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, struct flow_key);
	__type(value, struct flow);
} flows SEC(".maps");

// Position of the IP header.
struct ip_position {
	enum bpf_hdr_start_off from;
	__u32 offset;
	__be16 protocol;
};

struct packet {
	struct __sk_buff *skb;
	struct flow_key key;
	__u32 length;
	__u32 origin;
	__u16 from_port;
	__u16 to_port;
	__u8 family;  // 4, 6, or 0 for other protocols
	__u8 dscp;
	__u8 has_ports;
	__u8 size;  // MATCH_MOUSE or MATCH_ELEPHANT, divided by MATCH_MOUSE; 0: unknown
};

static __always_inline int load(struct packet *p, struct ip_position *at, __u32 offset, void *into, __u32 length)
{
	return bpf_skb_load_bytes_relative(p->skb, at->offset + offset, into, length, at->from);
}

static __always_inline int is_vlan(__be16 protocol)
{
	return protocol == bpf_htons(ETH_P_8021Q) || protocol == bpf_htons(ETH_P_8021AD);
}

// Finds the IP header. The stack's network header offset is valid on devices with and without Ethernet headers. With a
// VLAN tag in the packet data that offset is wrong, and the parser starts at the MAC header.
static __always_inline void find_ip(struct packet *p, struct ip_position *at)
{
	at->from = BPF_HDR_START_NET;
	at->offset = 0;
	at->protocol = p->skb->protocol;
	if (!is_vlan(at->protocol))
		return;
	at->from = BPF_HDR_START_MAC;
	at->offset = ETH_HLEN;
	at->protocol = 0;
	if (load(p, at, -2, &at->protocol, sizeof(at->protocol)))
		return;
	for (int i = 0; i < VLAN_TAGS_MAX && is_vlan(at->protocol); i++) {
		if (load(p, at, 2, &at->protocol, sizeof(at->protocol))) {
			at->protocol = 0;
			return;
		}
		at->offset += 4;
	}
}

static __always_inline void read_ports(struct packet *p, struct ip_position *at, __u32 offset)
{
	__be16 ports[2];

	switch (p->key.protocol) {
	case IPPROTO_TCP:
	case IPPROTO_UDP:
	case IPPROTO_UDPLITE:
	case IPPROTO_SCTP:
	case IPPROTO_DCCP:
		break;
	default:
		return;
	}
	if (load(p, at, offset, ports, sizeof(ports)))
		return;
	p->key.from_port = ports[0];
	p->key.to_port = ports[1];
	p->from_port = bpf_ntohs(ports[0]);
	p->to_port = bpf_ntohs(ports[1]);
	p->has_ports = 1;
}

static __always_inline void map_ipv4(union address *into, __be32 address)
{
	into->words[2] = bpf_htonl(0xffff);
	into->words[3] = address;
}

// All fragments of a datagram belong to one class. Only the first fragment has ports, so that fragments match no ports.
static __always_inline void read_ipv4(struct packet *p, struct ip_position *at)
{
	struct iphdr header;

	if (load(p, at, 0, &header, sizeof(header)) || header.version != 4 || header.ihl < 5)
		return;
	p->family = 4;
	p->dscp = header.tos >> 2;
	p->key.protocol = header.protocol;
	map_ipv4(&p->key.from, header.saddr);
	map_ipv4(&p->key.to, header.daddr);
	// Whether the flag "more fragments" or an offset is set.
	if (!(header.frag_off & bpf_htons(0x3fff)))
		read_ports(p, at, header.ihl * 4);
}

struct extension {
	__u8 next;
	__u8 length;
	__be16 fragment;  // fragment header: offset and "more fragments"
};

// Walks the extension headers (RFC 8200, section 4). Encrypted packets and packets with too many headers have no ports.
static __always_inline void read_ipv6(struct packet *p, struct ip_position *at)
{
	struct ipv6hdr header;
	struct extension extension;
	__u32 offset = sizeof(header);
	__u8 next;

	if (load(p, at, 0, &header, sizeof(header)) || header.version != 6)
		return;
	p->family = 6;
	p->dscp = header.priority << 2 | header.flow_lbl[0] >> 6;
	__builtin_memcpy(&p->key.from, &header.saddr, sizeof(p->key.from));
	__builtin_memcpy(&p->key.to, &header.daddr, sizeof(p->key.to));
	next = header.nexthdr;
	for (int i = 0; i < EXTENSION_HEADERS_MAX; i++) {
		p->key.protocol = next;
		if (next != IPPROTO_HOPOPTS && next != IPPROTO_ROUTING && next != IPPROTO_DSTOPTS &&
		    next != IPPROTO_FRAGMENT && next != IPPROTO_AH && next != IPPROTO_MH)
			break;
		if (load(p, at, offset, &extension, sizeof(extension)))
			return;
		next = extension.next;
		if (p->key.protocol == IPPROTO_FRAGMENT) {
			offset += 8;
			// An atomic fragment (RFC 6946) is a complete packet.
			if (extension.fragment & bpf_htons(0xfff9)) {
				p->key.protocol = next;
				return;
			}
		} else if (p->key.protocol == IPPROTO_AH) {
			offset += (extension.length + 2) * 4;
		} else {
			offset += (extension.length + 1) * 8;
		}
	}
	p->key.protocol = next;
	read_ports(p, at, offset);
}

// Rate in bytes per second, without overflow for any byte count.
static __always_inline __u64 rate(__u64 bytes, __u64 ns)
{
	__u64 us = ns / 1000;

	if (!us)
		us = 1;
	return bytes < 1ULL << 43 ? bytes * 1000000 / us : bytes / us * 1000000;
}

static __always_inline void start_flow(struct flow *flow, __u64 now)
{
	flow->bytes = 0;
	flow->seen_ns = now;
	flow->above_since_ns = now;
	flow->window_start_ns = now;
	flow->window_bytes = 0;
	flow->elephant = 0;
}

// At the end of each window, updates the time for which the flow has exceeded the rate. A packet on another CPU may
// have stored a later time, which counts as no elapsed time.
static __always_inline void close_window(struct flow *flow, __u64 now)
{
	__u64 passed = now - flow->window_start_ns;

	if (!settings.window_ns || now < flow->window_start_ns || passed < settings.window_ns)
		return;
	if (rate(flow->window_bytes, passed) <= settings.limit_rate)
		flow->above_since_ns = now;
	else if (now > flow->above_since_ns && now - flow->above_since_ns > settings.above_ns)
		flow->elephant = 1;
	flow->window_start_ns = now;
	flow->window_bytes = 0;
}

static __always_inline __u8 add(struct flow *flow, __u64 now, __u32 length)
{
	if (now > flow->seen_ns && now - flow->seen_ns > settings.idle_ns)
		start_flow(flow, now);
	close_window(flow, now);
	flow->seen_ns = now;
	// Several CPUs may handle packets of one flow where no qdisc lock is held (clsact).
	__sync_fetch_and_add(&flow->bytes, length);
	__sync_fetch_and_add(&flow->window_bytes, length);
	if (flow->bytes > settings.limit_bytes)
		flow->elephant = 1;
	return flow->elephant ? MATCH_ELEPHANT / MATCH_MOUSE : MATCH_MOUSE / MATCH_MOUSE;
}

// Adds the packet to its flow and returns the size class of the flow.
static __always_inline __u8 count_packet(struct packet *p)
{
	__u64 now = bpf_ktime_get_ns() + clock_offset_ns;
	struct flow *known = bpf_map_lookup_elem(&flows, &p->key);
	struct flow new;
	__u8 size;

	if (known)
		return add(known, now, p->length);
	start_flow(&new, now);
	size = add(&new, now, p->length);
	// The update fails if another CPU was first, or for lack of memory; the flow then counts as a mouse until its next
	// packet.
	bpf_map_update_elem(&flows, &p->key, &new, BPF_NOEXIST);
	return size;
}

static __always_inline int within(__u16 port, const __u16 *range)
{
	return port >= range[0] && port <= range[1];
}

static __always_inline int matches_addresses(struct packet *p, struct rule *rule)
{
	return p->family == rule->family &&
	       (p->key.from.halves[0] & rule->from_mask.halves[0]) == rule->from.halves[0] &&
	       (p->key.from.halves[1] & rule->from_mask.halves[1]) == rule->from.halves[1] &&
	       (p->key.to.halves[0] & rule->to_mask.halves[0]) == rule->to.halves[0] &&
	       (p->key.to.halves[1] & rule->to_mask.halves[1]) == rule->to.halves[1];
}

static __always_inline int matches_ports(struct packet *p, struct rule *rule)
{
	if (!p->has_ports)
		return 0;
	// A rule with ports but no protocol applies to TCP and UDP, as with u32 filters.
	if (!(rule->conditions & MATCH_PROTOCOL) && p->key.protocol != IPPROTO_TCP && p->key.protocol != IPPROTO_UDP)
		return 0;
	if (rule->conditions & MATCH_FROM_PORTS && !within(p->from_port, rule->from_ports))
		return 0;
	if (rule->conditions & MATCH_TO_PORTS && !within(p->to_port, rule->to_ports))
		return 0;
	return !(rule->conditions & MATCH_PORTS) || within(p->from_port, rule->ports) || within(p->to_port, rule->ports);
}

// Compares the sending socket. Forwarded packets have no socket; without this check they would match the overflow user
// that the kernel reports.
static __always_inline int matches_sender(struct packet *p, struct rule *rule)
{
	if (rule->conditions & MATCH_USER && (!p->skb->sk || bpf_get_socket_uid(p->skb) != rule->user))
		return 0;
	return !(rule->conditions & MATCH_CGROUP) || bpf_skb_under_cgroup(p->skb, &cgroups, rule->cgroup) == 1;
}

// Callback of bpf_loop; a return value of 1 ends the loop. The size is the last condition, so that only flows whose
// size matters are stored.
static long evaluate_rule(__u32 index, struct packet *p)
{
	struct rule *rule = bpf_map_lookup_elem(&rules, &index);
	__u16 conditions;

	if (!rule)
		return 1;
	conditions = rule->conditions;
	if (conditions & MATCH_IP && !p->family)
		return 0;
	if (conditions & MATCH_FAMILY && !matches_addresses(p, rule))
		return 0;
	if (conditions & MATCH_PROTOCOL && p->key.protocol != rule->protocol)
		return 0;
	if (conditions & MATCH_ANY_PORT && !matches_ports(p, rule))
		return 0;
	if (conditions & MATCH_DSCP && !(rule->dscp >> (p->dscp & 63) & 1))
		return 0;
	if (conditions & (MATCH_USER | MATCH_CGROUP) && !matches_sender(p, rule))
		return 0;
	if (conditions & MATCH_SIZE) {
		if (!p->size)
			p->size = count_packet(p);
		if (!(conditions / MATCH_MOUSE & p->size))
			return 0;
	}
	p->origin = rule->origin;
	return 1;
}

SEC("tc")
int classify(struct __sk_buff *skb)
{
	struct packet p = { .skb = skb };
	struct ip_position at;
	struct hits *hit;
	__u32 *class;

	// The length of a super-packet is its length on the wire, including the headers of all segments.
	p.length = skb->wire_len > skb->len ? skb->wire_len : skb->len;
	find_ip(&p, &at);
	if (at.protocol == bpf_htons(ETH_P_IP))
		read_ipv4(&p, &at);
	else if (at.protocol == bpf_htons(ETH_P_IPV6))
		read_ipv6(&p, &at);
	bpf_loop(settings.rules, evaluate_rule, &p, 0);
	hit = bpf_map_lookup_elem(&hits, &p.origin);
	if (hit) {
		hit->packets++;
		hit->bytes += p.length;
	}
	class = bpf_map_lookup_elem(&classes, &p.origin);
	return class ? *class : 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
