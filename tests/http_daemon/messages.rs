//! Requests that are answered: routes, bodies, persistence, pipelining.

use std::io::Read;
use std::time::{Duration, Instant};

use crate::harness::{Answer, Client, PATIENCE, Server, poll};

const HELLO: &str = "GET / HTTP/1.1\r\nHost: volt\r\n\r\n";

fn assert_hello(answer: &Answer) {
    assert_eq!((answer.status, answer.text()), (200, "Hello, World!"));
}

#[test]
fn hello_has_the_headers_it_should() {
    let answer = Server::start().ask(HELLO);
    assert_hello(&answer);
    assert_eq!(answer.header("content-type"), Some("text/plain"));
    assert_eq!(answer.header("content-length"), Some("13"));
    assert_eq!(answer.header("connection"), None);
}

/// The Date is the one that `date` makes of the same second; a second may pass while we ask.
#[test]
fn the_date_is_now() {
    let server = Server::start();
    let date = || {
        let output = std::process::Command::new("date")
            .args(["-u", "+%a, %d %b %Y %T GMT"])
            .env("LC_ALL", "C")
            .output();
        String::from_utf8(output.expect("date runs").stdout).unwrap().trim_end().to_owned()
    };
    let tries =
        (0..5).map(|_| (date(), server.ask(HELLO).header("date").unwrap().to_owned(), date()));
    let tries: Vec<_> = tries.collect();
    assert!(tries.iter().any(|(before, said, after)| said == before || said == after), "{tries:?}");
}

/// The clock is not asked for each answer, but once in a second.
#[test]
fn the_date_goes_on_over_a_connection() {
    let server = Server::start();
    let mut client = server.connect();
    let mut date = || {
        client.send(HELLO);
        client.answer().header("date").unwrap().to_owned()
    };
    let (first, start) = (date(), Instant::now());
    while date() == first {
        assert!(start.elapsed() < Duration::from_millis(1_500), "it is still {first}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_connection_serves_one_request_after_another() {
    let server = Server::start();
    let mut client = server.connect();
    for _ in 0..100 {
        client.send(HELLO);
        assert_hello(&client.answer());
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = Server::start();
    let mut client = server.connect();
    let echo =
        |i: usize| format!("POST /echo HTTP/1.1\r\nHost: volt\r\nContent-Length: 2\r\n\r\n{i:02}");
    for round in 0..10 {
        client.send((0..16).map(|i| echo(round + i)).collect::<String>());
        for i in 0..16 {
            assert_eq!(client.answer().text(), format!("{:02}", round + i));
        }
    }
}

/// One write is one segment on the loopback, and one read finds all of it.
#[test]
fn a_batch_is_answered_in_one_write() {
    let server = Server::start();
    let mut client = server.connect();
    for _ in 0..10 {
        client.send(HELLO.repeat(16));
        let mut answers = [0; 16 << 10];
        let n = client.stream.read(&mut answers).unwrap();
        assert_eq!(String::from_utf8_lossy(&answers[..n]).matches("Hello, World!").count(), 16);
    }
}

/// More than any buffer holds at once, in both directions.
#[test]
fn a_long_pipeline_is_answered_while_it_is_read() {
    let server = Server::start();
    let client = server.connect();
    let mut writer = Client::new(client.stream.try_clone().unwrap());
    let mut reader = client;
    std::thread::scope(|s| {
        s.spawn(move || writer.send(HELLO.repeat(20_000)));
        (0..20_000).for_each(|_| assert_hello(&reader.answer()));
    });
}

#[test]
fn a_request_may_arrive_in_any_two_pieces() {
    let server = Server::start();
    let chunked = "POST /echo HTTP/1.1\r\nHost: volt\r\nTransfer-Encoding: chunked\r\n\r\n\
        3;name=value\r\none\r\n0008\r\n two six\r\n0\r\nTrailer: value\r\n\r\n";
    let counted = "POST /echo HTTP/1.1\r\nHost: volt\r\nContent-Length: 11\r\n\r\none two six";
    let (mut client, mut bystander) = (server.connect(), server.connect());
    for request in [chunked, counted] {
        for at in 1..request.len() {
            client.send(&request[..at]);
            // By the time that another connection has had its turn, the first piece has mostly been read.
            bystander.send(HELLO);
            assert_hello(&bystander.answer());
            client.send(&request[at..]);
            assert_eq!(client.answer().text(), "one two six", "split at {at}");
        }
    }
}

#[test]
fn a_request_may_arrive_byte_by_byte() {
    let server = Server::start();
    let mut client = server.connect();
    let request = "POST /echo HTTP/1.1\r\nHost: volt\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n";
    for byte in request.bytes() {
        client.send([byte]);
    }
    client.send(HELLO);
    assert_eq!(client.answer().text(), "abc");
    assert_hello(&client.answer());
}

#[test]
fn head_is_get_without_the_body() {
    let server = Server::start();
    let mut client = server.connect();
    client.send(HELLO.replace("GET", "HEAD"));
    client.send(HELLO);
    let head = client.answer_to_head();
    assert_eq!((head.status, head.header("content-length")), (200, Some("13")));
    assert_hello(&client.answer());
}

#[test]
fn echo_gives_back_bodies_of_all_sizes() {
    let server = Server::start();
    let mut client = server.connect();
    for len in [0, 1, 1000, 1024, 5000, 100_000, 1 << 20] {
        let body: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
        let mut writer = Client::new(client.stream.try_clone().unwrap());
        std::thread::scope(|s| {
            s.spawn(|| {
                writer.send(format!(
                    "POST /echo HTTP/1.1\r\nHost: volt\r\nContent-Length: {len}\r\n\r\n"
                ));
                writer.send(&body);
                writer.send(
                    "POST /echo HTTP/1.1\r\nHost: volt\r\nTransfer-Encoding: Chunked\r\n\r\n",
                );
                for chunk in body.chunks(777) {
                    writer.send(
                        [format!("{:X}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat(),
                    );
                }
                writer.send("0\r\n\r\n");
            });
            assert!(client.answer().body == body, "{len} bytes by length");
            assert!(client.answer().body == body, "{len} bytes in chunks");
        });
    }
}

#[test]
fn a_body_that_is_not_asked_for_is_no_request() {
    let server = Server::start();
    let mut client = server.connect();
    client.send(format!(
        "GET / HTTP/1.1\r\nHost: volt\r\nContent-Length: {}\r\n\r\n{HELLO}",
        HELLO.len()
    ));
    client.send("GET /echo HTTP/1.1\r\nHost: volt\r\n\r\n");
    assert_hello(&client.answer());
    assert_eq!(client.answer().status, 405);
}

#[test]
fn stats_are_json_about_fibers_and_workers() {
    let server = Server::start();
    let _idle: Vec<_> = (0..5).map(|_| server.connect()).collect();
    let live = poll(PATIENCE, "the idle connections are counted", || {
        let stats = server.ask("GET /stats HTTP/1.1\r\nHost: volt\r\n\r\n");
        assert_eq!((stats.status, stats.header("content-type")), (200, Some("application/json")));
        let text = stats.text().trim_end();
        assert!(
            text.starts_with('{') && text.ends_with("]}") && text.contains(r#""workers":[{""#),
            "{text}"
        );
        let live = text
            .split(r#""live_fibers":"#)
            .nth(1)
            .and_then(|rest| rest.split(',').next())
            .expect("a count");
        let live: u32 = live.parse().expect("a number");
        (live >= 6).then_some(live)
    });
    assert!(live < 100, "{live}");
}

#[test]
fn other_paths_and_methods_are_told_so() {
    let server = Server::start();
    let mut client = server.connect();
    let mut ask = |line: &str| {
        client.send(format!("{line} HTTP/1.1\r\nHost: volt\r\n\r\n"));
        client.answer()
    };
    assert_eq!(ask("GET /nowhere").status, 404);
    assert_eq!(ask("DELETE /nowhere").status, 404);
    assert_eq!(ask("OPTIONS *").status, 404);
    for (line, allow) in
        [("POST /", "GET, HEAD"), ("DELETE /stats", "GET, HEAD"), ("GET /echo", "POST")]
    {
        let answer = ask(line);
        assert_eq!((answer.status, answer.header("allow")), (405, Some(allow)), "{line}");
    }
    assert_hello(&ask("GET /?query"));
    assert_hello(&ask("GET http://volt/"));
    assert_hello(&ask("GET HTTP://volt"));
}

#[test]
fn expect_continue_is_answered_before_the_body_is_sent() {
    let server = Server::start();
    let mut client = server.connect();
    let framings =
        [("Content-Length: 3", "abc"), ("Transfer-Encoding: chunked", "3\r\nabc\r\n0\r\n\r\n")];
    for (framing, body) in framings {
        client.send(format!(
            "POST /echo HTTP/1.1\r\nHost: volt\r\nExpect: 100-Continue\r\n{framing}\r\n\r\n"
        ));
        assert_eq!(client.answer().status, 100);
        client.send(body);
        assert_eq!(client.answer().text(), "abc");
    }
    // With the body there already it would be noise; without one, nonsense.
    client.send(
        "POST /echo HTTP/1.1\r\nHost: volt\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
    );
    assert_eq!(client.answer().text(), "abc");
    client.send("GET / HTTP/1.1\r\nHost: volt\r\nExpect: 100-continue\r\n\r\n");
    assert_hello(&client.answer());
    server.refuses("GET / HTTP/1.1\r\nHost: volt\r\nExpect: a miracle\r\n\r\n", 417);
}

#[test]
fn the_client_may_close() {
    let server = Server::start();
    for request in [
        "GET / HTTP/1.1\r\nHost: volt\r\nConnection: close\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: volt\r\nConnection: Keep-Alive , Close\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: volt\r\nConnection: close\r\nConnection: keep-alive\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "GET / HTTP/1.0\r\nHost: volt\r\nConnection: close\r\n\r\n",
    ] {
        let mut client = server.connect();
        // The second request comes too late.
        client.send([request, HELLO].concat());
        let answer = client.answer();
        assert_hello(&answer);
        assert_eq!(answer.header("connection"), Some("close"), "{request:?}");
        client.expect_end();
    }
}

#[test]
fn http_1_0_may_stay() {
    let server = Server::start();
    let mut client = server.connect();
    for _ in 0..2 {
        client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        let answer = client.answer();
        assert_hello(&answer);
        assert_eq!(answer.header("connection"), Some("keep-alive"));
    }
}

#[test]
fn stray_line_breaks_between_requests_are_ignored() {
    let server = Server::start();
    let mut client = server.connect();
    for request in [format!("{HELLO}\r\n"), HELLO.to_owned(), format!("\r\n{HELLO}")] {
        client.send(request);
        assert_hello(&client.answer());
    }
}
