// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Test program: applies a script of connection events to FAST TCP or H-TCP, as the kernel would call them, and records
// the window after each step. BPF_PROG_TEST_RUN runs it; crates/bpf/src/congestion/tests compares the result with the
// reference in Rust.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "connection.h"
#include "fast.h"
#include "htcp.h"

enum step_kind { ACKNOWLEDGED, ACKNOWLEDGED_IN_RECOVERY, LOST, TIMED_OUT, UNDONE, IDLE, RECOVERED };

struct step {
	__u64 now_us;
	__u32 kind;
	__u32 acked;
	__s32 rtt_us;
	__u32 flight;
	__u32 delivered;
	__u32 limited;
	__u32 open;
	__u32 disorder;
};

struct seen {
	__u32 window;
	__u32 threshold;
	__u32 window_count;
};

// The test writes these settings.
const volatile __u32 is_htcp = 0;
const volatile struct fast_settings fast_settings = {};
const volatile struct htcp_settings htcp_settings = {};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct step);
} steps SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct seen);
} seen SEC(".maps");

struct replay {
	struct connection c;
	struct fast fast;
	struct htcp htcp;
};

static __always_inline void fast_step(struct replay *r, const struct step *step)
{
	struct fast_settings s = fast_load_settings(&fast_settings);

	switch (step->kind) {
	case ACKNOWLEDGED:
		fast_acked(&s, &r->fast, &r->c, step->acked, step->rtt_us, step->flight);
		fast_avoid(&s, &r->fast, &r->c, step->acked);
		break;
	case ACKNOWLEDGED_IN_RECOVERY:
		fast_acked(&s, &r->fast, &r->c, step->acked, step->rtt_us, step->flight);
		break;
	case LOST:
	case TIMED_OUT:
		r->c.prior_window = r->c.window;
		r->c.threshold = fast_after_loss(&r->c);
		r->c.window = step->kind == LOST ? r->c.threshold : 1;
		if (step->kind == TIMED_OUT)
			fast_timeout(&r->fast);
		break;
	case UNDONE:
		r->c.window = before_reduction(&r->c);
		break;
	case IDLE:
		fast_idle(&r->fast);
		break;
	}
}

static __always_inline void htcp_step(struct replay *r, const struct step *step)
{
	struct htcp_settings s = htcp_load_settings(&htcp_settings);

	switch (step->kind) {
	case ACKNOWLEDGED:
		htcp_acked(&s, &r->htcp, &r->c, step->acked, step->rtt_us);
		htcp_avoid(&s, &r->htcp, &r->c, step->acked);
		break;
	case ACKNOWLEDGED_IN_RECOVERY:
		htcp_acked(&s, &r->htcp, &r->c, step->acked, step->rtt_us);
		break;
	case LOST:
	case TIMED_OUT:
		r->c.prior_window = r->c.window;
		r->c.threshold = htcp_after_loss(&s, &r->htcp, &r->c);
		r->c.window = step->kind == LOST ? r->c.threshold : 1;
		htcp_congestion(&s, &r->htcp, &r->c);
		break;
	case UNDONE:
		r->c.window = htcp_undo(&r->htcp, &r->c);
		break;
	case RECOVERED:
		htcp_open(&s, &r->htcp, &r->c);
		break;
	}
}

// Connection state, kept between runs.
struct replay state = {};
// Index of the next step.
__u32 next = 0;

// Executes one step. A loop over all steps would exceed the verifier's complexity limit.
SEC("syscall")
int replay(void *context)
{
	__u32 key = next;
	struct step *step = bpf_map_lookup_elem(&steps, &key);
	struct seen *out = bpf_map_lookup_elem(&seen, &key);
	struct replay *r = &state;

	if (!step || !out)
		return 1;
	if (next == 0) {
		struct htcp_settings s = htcp_load_settings(&htcp_settings);

		r->c.window = 10;
		r->c.threshold = 0x7fffffff;
		r->c.clamp = 0xffffffff;
		htcp_init(&s, &r->htcp, &r->c);
	}
	r->c.now_us = step->now_us;
	r->c.delivered = step->delivered;
	r->c.limited = step->limited;
	r->c.open = step->open;
	r->c.disorder = step->disorder;
	if (is_htcp)
		htcp_step(r, step);
	else
		fast_step(r, step);
	out->window = r->c.window;
	out->threshold = r->c.threshold;
	out->window_count = r->c.window_count;
	next++;
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
