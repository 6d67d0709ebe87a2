//! Requests that are refused: malformed, ambiguous, too large, too slow, unsupported.

use std::time::{Duration, Instant};

use crate::harness::{Client, Server};

/// A request with the given lines after the request line; each ends as it should.
fn post(lines: &[&str]) -> String {
    let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    format!("POST /echo HTTP/1.1\r\nHost: volt\r\n{lines}\r\n")
}

fn chunked(body: &str) -> String {
    post(&["Transfer-Encoding: chunked"]) + body
}

#[test]
fn malformed_heads() {
    let server = Server::start();
    for request in [
        "nonsense\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : volt\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: volt\r\n folded\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: volt\r\nName: one\r\n\ttwo\r\n\r\n",
        "GET / HTTP/1.1\r\n Host: volt\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: volt\r\nno colon\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: volt\r\n: no name\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: volt\r\nName: \0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: volt\r\nName: a\rb\r\n\r\n",
        "GET  / HTTP/1.1\r\nHost: volt\r\n\r\n",
        "GET /  HTTP/1.1\r\nHost: volt\r\n\r\n",
        "GET / HTTP/1.1 \r\nHost: volt\r\n\r\n",
        "GET nowhere HTTP/1.1\r\nHost: volt\r\n\r\n",
        "GET http:///path HTTP/1.1\r\nHost: volt\r\n\r\n",
        "CONNECT volt:80 HTTP/1.1\r\nHost: volt:80\r\n\r\n",
        "GET / FTP/1.1\r\nHost: volt\r\n\r\n",
        "GET / http/1.1\r\nHost: volt\r\n\r\n",
        "GET /\r\n\r\n",
        "G\u{e9}T / HTTP/1.1\r\nHost: volt\r\n\r\n",
    ] {
        server.refuses(request, 400);
    }
    // A TLS client that has mistaken the port.
    server.refuses([0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3], 400);
}

#[test]
fn bare_line_feeds() {
    let server = Server::start();
    for request in [
        "GET / HTTP/1.1\nHost: volt\n\n",
        "GET / HTTP/1.1\r\nHost: volt\n\r\n",
        "GET / HTTP/1.1\r\nHost: volt\r\n\n",
        "GET / HTTP/1.1\r\nHost: volt\r\nName: value\nOther: value\r\n\r\n",
        "\nGET / HTTP/1.1\r\nHost: volt\r\n\r\n",
    ] {
        server.refuses(request, 400);
    }
}

/// Printable ASCII, that is: of the others httparse refuses some in any header, as above.
#[test]
fn a_host_has_letters_digits_and_its_marks() {
    let server = Server::start();
    for byte in b'!'..=b'~' {
        let request = format!("GET / HTTP/1.1\r\nHost: a{}b\r\n\r\n", char::from(byte));
        // RFC 3986: unreserved, percent, sub-delims, and what parts a port and encloses an address.
        if byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:[]".contains(&byte) {
            assert_eq!(server.ask(request).status, 200, "{}", char::from(byte));
        } else {
            server.refuses(request, 400);
        }
    }
}

#[test]
fn lengths_that_can_be_read_in_two_ways() {
    let server = Server::start();
    let body = "0\r\n\r\nGET / HTTP/1.1\r\nHost: volt\r\n\r\n";
    for lines in [
        &["Content-Length: 5", "Transfer-Encoding: chunked"][..],
        &["Transfer-Encoding: chunked", "Content-Length: 5"],
        &["Content-Length: 5", "Content-Length: 5"],
        &["Content-Length: 5", "Content-Length: 6"],
        &["Content-Length: 5, 5"],
        &["Content-Length: +5"],
        &["Content-Length: -5"],
        &["Content-Length: 0x5"],
        &["Content-Length: 5 5"],
        &["Content-Length: 5;"],
        &["Content-Length:"],
        &["Content-Length : 5"],
        &["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
        &["Transfer-Encoding: identity", "Transfer-Encoding: chunked"],
        &["Transfer-Encoding : chunked"],
        &["Transfer-Encoding:\u{b}chunked"],
        &["Transfer-Encoding:", " chunked"],
    ] {
        server.refuses(post(lines) + body, 400);
    }
    let old = "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    server.refuses(old, 400);
}

#[test]
fn other_codings_and_versions() {
    let server = Server::start();
    for coding in [
        "gzip",
        "gzip, chunked",
        "chunked, gzip",
        "identity",
        "xchunked",
        "chunked;q=1",
        "\"chunked\"",
    ] {
        server.refuses(post(&[&format!("Transfer-Encoding: {coding}")]) + "0\r\n\r\n", 501);
    }
    for version in ["2.0", "1.2", "0.9", "3"] {
        server.refuses(format!("GET / HTTP/{version}\r\nHost: volt\r\n\r\n"), 505);
    }
    server.refuses("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505);
}

#[test]
fn chunks_that_are_none() {
    let server = Server::start();
    for body in [
        "x\r\n",
        "\r\n",
        "+3\r\nabc\r\n0\r\n\r\n",
        "-3\r\nabc\r\n0\r\n\r\n",
        "0x3\r\nabc\r\n0\r\n\r\n",
        " 3\r\nabc\r\n0\r\n\r\n",
        "3 \r\nabc\r\n0\r\n\r\n",
        "3 3\r\nabc\r\n0\r\n\r\n",
        "3\nabc\r\n0\r\n\r\n",
        "3;a\nb\r\nabc\r\n0\r\n\r\n",
        "3;a\rb\r\nabc\r\n0\r\n\r\n",
        "3\r\nabcd\r\n0\r\n\r\n",
        "3\r\nabcde0\r\n\r\n",
        "3\r\nab\r\n0\r\n\r\n",
        "3\r\nabc\n0\r\n\r\n",
        "3\r\nabc\r\n0\r\n\n",
        "0\r\n folded\r\n\r\n",
        "0\r\nno colon\r\n\r\n",
        "0\r\nName : value\r\n\r\n",
        "0\r\nName: value\n\r\n",
    ] {
        server.refuses(chunked(body), 400);
    }
    server.refuses(chunked(&format!("3;{}\r\nabc\r\n", "x".repeat(300))), 400);
    server.refuses(chunked(&format!("{:0300}", 3)), 400);
}

#[test]
fn what_is_too_large() {
    let server = Server::start();
    server.refuses(post(&["Content-Length: 1048577"]), 413);
    server.refuses(post(&["Content-Length: 18446744073709551617"]), 413);
    server.refuses(chunked("100001\r\n"), 413);
    server.refuses(chunked("ffffffffffffffff\r\n"), 413);
    server.refuses(chunked("10000000000000003\r\n"), 413);
    let half = format!("90000\r\n{}\r\n", "x".repeat(0x90000));
    server.refuses(chunked(&half.repeat(2)), 413);

    server.refuses(format!("GET /{} HTTP/1.1\r\nHost: volt\r\n\r\n", "x".repeat(20_000)), 431);
    server.refuses(post(&[&format!("Name: {}", "x".repeat(20_000))]), 431);
    server.refuses("x".repeat(20_000), 431);
    server.refuses(post(&["Name: value"; 100]), 431);
    server.refuses(chunked(&format!("0\r\n{}", "Name: value\r\n".repeat(1000))), 431);
    server.refuses(chunked(&format!("0\r\nName: {}", "x".repeat(5000))), 431);
}

/// A peer that never stops sending gets its answer, and then its end.
#[test]
fn an_endless_request_ends() {
    let server = Server::start();
    let mut client = server.connect();
    let mut writer = Client::new(client.stream.try_clone().unwrap());
    std::thread::scope(|s| {
        s.spawn(move || {
            use std::io::Write;
            while writer.stream.write_all(&[b'x'; 1000]).is_ok() {}
        });
        assert_eq!(client.answer().status, 431);
    });
    assert_eq!(server.ask("GET / HTTP/1.1\r\nHost: volt\r\n\r\n").status, 200);
}

/// Good requests before a bad one in the same batch keep their answers.
#[test]
fn a_refusal_comes_after_the_answers_before_it() {
    let server = Server::start();
    let mut client = server.connect();
    let hello = "GET / HTTP/1.1\r\nHost: volt\r\n\r\n";
    client.send([hello, hello, "nonsense\r\n\r\n", hello].concat());
    let statuses = [(); 3].map(|()| client.answer().status);
    assert_eq!(statuses, [200, 200, 400]);
    client.expect_end();
}

#[test]
fn dripping_does_not_put_the_deadline_off() {
    let server = Server::with(&["--header-timeout", "400"], None);
    let mut dripping = server.connect();
    let mut silent = server.connect();
    let idle = server.connect();
    let begun = Instant::now();
    silent.send("GET / HT");
    let mut writer = Client::new(dripping.stream.try_clone().unwrap());
    std::thread::scope(|s| {
        s.spawn(move || {
            use std::io::Write;
            let head =
                "GET / HTTP/1.1\r\nHost: volt\r\nName: ".bytes().chain(std::iter::repeat(b'x'));
            for byte in head {
                if writer.stream.write_all(&[byte]).is_err()
                    || begun.elapsed() > Duration::from_secs(5)
                {
                    return;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        assert_eq!(dripping.answer().status, 408);
        let took = begun.elapsed();
        assert!(took >= Duration::from_millis(390) && took < Duration::from_secs(3), "{took:?}");
    });
    assert_eq!(silent.answer().status, 408);
    silent.expect_end();

    // The deadline is the request's, not the connection's: each begins one, far from its end, and all of
    // them together take longer.
    let mut idle = idle;
    for _ in 0..4 {
        idle.send("GET / HTTP/1.1\r\n");
        std::thread::sleep(Duration::from_millis(20));
        idle.send("Host: volt\r\n\r\n");
        assert_eq!(idle.answer().status, 200);
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// A line break after a request begins no other, so no deadline runs.
#[test]
fn a_stray_line_break_starts_no_deadline() {
    let server = Server::with(&["--header-timeout", "100"], None);
    let mut client = server.connect();
    for _ in 0..2 {
        client.send("GET / HTTP/1.1\r\nHost: volt\r\n\r\n\r\n");
        assert_eq!(client.answer().status, 200);
        std::thread::sleep(Duration::from_millis(300));
    }
}

#[test]
fn an_idle_timeout_closes_silently() {
    let server = Server::with(&["--idle-timeout", "200"], None);
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: volt\r\n\r\n");
    assert_eq!(client.answer().status, 200);
    client.expect_end();
}

#[test]
fn wrong_flags_are_explained() {
    use std::process::Command;
    let run = |flags: &[&str]| Command::new(crate::harness::binary()).args(flags).output().unwrap();
    assert!(run(&["--help"]).status.success());
    for flags in [&["--addr"][..], &["--workers", "0"], &["--workers", "x"], &["--frobnicate"]] {
        let output = run(flags);
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(flags[0]), "{flags:?}");
    }
    assert_eq!(run(&["--addr", "nowhere"]).status.code(), Some(1));
}
