//! The loaded program on hand-made frames (BPF_PROG_TEST_RUN).
