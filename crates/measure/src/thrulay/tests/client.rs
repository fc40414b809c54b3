//! thrulay client against longhaul server.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use super::{Served, is_closed, one_read, server_options};
use crate::ServerOptions;

/// `struct timeval` of a 64-bit little-endian host.
fn timeval(block: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&(1_156_096_800 + block).to_le_bytes());
    bytes[8..].copy_from_slice(&(block * 7 % 1_000_000).to_le_bytes());
    bytes
}

/// Sends a proposal and returns the server's answer as text.
fn propose(stream: &mut TcpStream, proposal: &[u8]) -> String {
    stream.write_all(proposal).unwrap();
    String::from_utf8(one_read(stream)).unwrap()
}

/// Sends blocks and checks that the headers are echoed in order, with no bytes between them.
fn exchange(stream: &TcpStream, block: usize, blocks: u64) {
    let mut reader = stream.try_clone().unwrap();
    let echoes = std::thread::spawn(move || {
        for n in 0..blocks {
            let mut echo = [0; 16];
            reader.read_exact(&mut echo).unwrap();
            assert_eq!(echo, timeval(n), "echo of block {n}");
        }
    });
    let mut writer = stream.try_clone().unwrap();
    let mut bytes = vec![b'2'; block];
    for n in 0..blocks {
        bytes[..16].copy_from_slice(&timeval(n));
        writer.write_all(&bytes).unwrap();
    }
    echoes.join().unwrap();
}

#[test]
fn blocks_are_echoed_and_the_reset_at_the_end_frees_the_session() {
    let server = Served::start(ServerOptions { one_off: true, ..server_options() });
    let mut stream = server.greeted();
    // Linux reports double the configured size.
    assert_eq!(propose(&mut stream, b"thrulay/2:t:65536:8192+"), "131072:8192+");
    exchange(&stream, 8192, 500);
    // The echo of one more block stays unread: closing sends a reset, as in thrulay.
    stream.write_all(&[b'2'; 8192]).unwrap();
    kernel::reset_on_close(&stream);
    drop(stream);
    server.wait();
}

#[test]
fn minimum_size_blocks_and_an_incomplete_last_block_are_served() {
    let server = Served::start(ServerOptions { one_off: true, ..server_options() });
    let mut stream = server.greeted();
    assert_eq!(propose(&mut stream, b"thrulay/2:t:65536:16+"), "131072:16+");
    exchange(&stream, 16, 20_000);
    stream.write_all(&timeval(7)[..9]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert!(is_closed(&mut stream), "an incomplete header has no echo");
    server.wait();
}

#[test]
fn the_header_is_echoed_before_its_block_is_complete() {
    let server = Served::start(server_options());
    let mut stream = server.greeted();
    assert_eq!(propose(&mut stream, b"thrulay/2:t:65536:1048576+"), "131072:1048576+");
    stream.write_all(&timeval(3)).unwrap();
    let mut echo = [0; 16];
    stream.read_exact(&mut echo).unwrap();
    assert_eq!(echo, timeval(3));
}

#[test]
fn parallel_streams_get_equal_terms_and_excess_streams_are_closed() {
    let server = Served::start(ServerOptions { max_sessions: 2, ..server_options() });
    let (mut a, mut b, mut c) = (server.greeted(), server.greeted(), server.greeted());
    let proposal = b"thrulay/2:t:100000:4096+";
    let first = propose(&mut a, proposal);
    assert_eq!((first.as_str(), propose(&mut b, proposal).as_str()), ("200000:4096+", "200000:4096+"));
    c.write_all(proposal).unwrap();
    assert!(is_closed(&mut c));
    exchange(&a, 4096, 50);
    exchange(&b, 4096, 50);
}

#[test]
fn a_server_with_a_key_refuses_thrulay_clients() {
    let key = wire::Key::from_file_text("0123456789abcdef0123456789abcdef").unwrap();
    let server = Served::start(ServerOptions { key: Some(key), ..server_options() });
    let mut tcp = server.greeted();
    tcp.write_all(b"thrulay/2:t:65536:8192+").unwrap();
    assert!(is_closed(&mut tcp));
    let mut udp = server.greeted();
    udp.write_all(b"thrulay/2:u:5004:1500:1000:10+").unwrap();
    assert_eq!(one_read(&mut udp), b"u:-");
    assert!(is_closed(&mut udp));
}
