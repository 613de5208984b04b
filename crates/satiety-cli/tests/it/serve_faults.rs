//! Durability of writes when the database is stopped as by a power cut, or the server is killed, under load.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use xtask::postgres::{Cluster, Options};

use crate::serve::{Server, get, start};
use crate::support::Place;

/// Number of concurrent clients, each with its own conversation.
const CLIENTS: usize = 6;

/// One exchange; `None` if the connection broke.
fn post(address: &str, path: &str, key: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(40))).ok()?;
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nIdempotency-Key: {key}\r\n\
         Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let status = answer.split(' ').nth(1)?.parse().ok()?;
    Some((status, answer))
}

fn round(client: usize, number: usize) -> String {
    format!(
        r#"{{"rounds": [{{"round": {number}, "agent": "a", "outputs": {{"claims": ["Client {client} has written sentence {number}."]}}}}]}}"#
    )
}

/// Responses that the clients saw.
#[derive(Debug, Default)]
struct Seen {
    acknowledged: AtomicUsize,
    away: AtomicUsize,
    broken: AtomicUsize,
    repeated: AtomicUsize,
    longest_ms: AtomicUsize,
}

impl Seen {
    /// Waits until some more rounds were acknowledged, at any speed of the machine.
    fn grow(&self) {
        let (before, began) = (self.acknowledged.load(Ordering::SeqCst), Instant::now());
        while self.acknowledged.load(Ordering::SeqCst) < before + 4 * CLIENTS {
            assert!(
                began.elapsed() < Duration::from_mins(2),
                "no write was acknowledged: {self:?}"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Writes until stopped, repeating each round until it is acknowledged; returns the number of rounds.
fn write_rounds(
    address: &(impl Fn() -> String + Sync),
    client: usize,
    end: &AtomicBool,
    seen: &Seen,
) -> usize {
    let mut number = 0;
    while !end.load(Ordering::SeqCst) {
        number += 1;
        let began = Instant::now();
        loop {
            let path = format!("/v1/conversations/client-{client}/rounds");
            let answer = post(
                &address(),
                &path,
                &format!("{client}-{number}"),
                &round(client, number),
            );
            match answer {
                Some((201, answer)) => {
                    seen.acknowledged.fetch_add(1, Ordering::SeqCst);
                    let took = usize::try_from(began.elapsed().as_millis()).unwrap();
                    seen.longest_ms.fetch_max(took, Ordering::SeqCst);
                    if answer.contains("idempotency-replayed") {
                        seen.repeated.fetch_add(1, Ordering::SeqCst);
                    }
                    break;
                }
                // The server is away, or the first attempt is still running.
                Some((503 | 409, _)) => {
                    seen.away.fetch_add(1, Ordering::SeqCst);
                }
                Some((status, answer)) => panic!("{status}: {answer}"),
                None => {
                    seen.broken.fetch_add(1, Ordering::SeqCst);
                }
            }
            assert!(
                began.elapsed() < Duration::from_secs(200),
                "round {number} is never acknowledged"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    number
}

fn begin(address: &str) {
    for client in 0..CLIENTS {
        let body = format!(r#"{{"conversation_id": "client-{client}"}}"#);
        let answer = post(address, "/v1/conversations", &format!("begin-{client}"), &body);
        assert_eq!(answer.unwrap().0, 201);
    }
}

/// Sentences of a client, in stored order.
fn kept(address: &str, client: usize) -> Vec<String> {
    let answer = get(address, &format!("/v1/conversations/client-{client}"), None);
    let body: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    body["rounds"]
        .as_array()
        .unwrap()
        .iter()
        .map(|round| {
            round["round"]["outputs"]["claims"][0]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect()
}

fn written(client: usize, count: usize) -> Vec<String> {
    (1..=count)
        .map(|number| format!("Client {client} has written sentence {number}."))
        .collect()
}

#[test]
fn stopping_the_database_under_load_loses_no_acknowledged_write() {
    if std::env::var_os("SATIETY_TEST_POSTGRES").is_none() {
        println!("skipped: SATIETY_TEST_POSTGRES is not set; `cargo xtask test` starts a server and sets it");
        return;
    }
    // A separate server, because it is stopped.
    let cluster = Cluster::start(Options::default()).unwrap();
    let url = cluster.create_database("faults").unwrap();
    let place = Place::new();
    let server = start(&place, &["--db", &url]);
    begin(&server.address);
    let (end, seen) = (AtomicBool::new(false), Seen::default());
    let address = || server.address.clone();
    let counts: Vec<usize> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                scope.spawn({
                    let (address, end, seen) = (&address, &end, &seen);
                    move || write_rounds(address, client, end, seen)
                })
            })
            .collect();
        for away in [0, 4] {
            seen.grow();
            cluster.stop_immediately().unwrap();
            std::thread::sleep(Duration::from_secs(away));
            cluster.up().unwrap();
        }
        seen.grow();
        end.store(true, Ordering::SeqCst);
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    println!("{seen:?}");
    // Concurrent writers got Retry-After, or had to wait.
    assert!(
        seen.away.load(Ordering::SeqCst) > 0 || seen.longest_ms.load(Ordering::SeqCst) > 3000,
        "no client saw the outage of the database"
    );
    assert_eq!(seen.broken.load(Ordering::SeqCst), 0, "the server must answer");
    for (client, count) in counts.into_iter().enumerate() {
        assert_eq!(
            kept(&server.address, client),
            written(client, count),
            "client {client}"
        );
    }
    assert!(get(&server.address, "/readyz", None).starts_with("HTTP/1.1 200"));
}

#[test]
fn killing_the_server_under_load_loses_no_acknowledged_write() {
    let place = Place::new();
    let first = start(&place, &[]);
    begin(&first.address);
    let (end, seen) = (AtomicBool::new(false), Seen::default());
    let running = std::sync::Mutex::new(first);
    let address = || running.lock().unwrap().address.clone();
    let counts: Vec<usize> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                scope.spawn({
                    let (address, end, seen) = (&address, &end, &seen);
                    move || write_rounds_once(address, client, end, seen)
                })
            })
            .collect();
        for _ in 0..3 {
            seen.grow();
            let mut running = running.lock().unwrap();
            kill(&mut running);
            *running = start(&place, &[]);
        }
        seen.grow();
        end.store(true, Ordering::SeqCst);
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    println!("{seen:?}");
    assert!(
        seen.broken.load(Ordering::SeqCst) > 0,
        "no client saw the kill of the server"
    );
    let running = running.into_inner().unwrap();
    for (client, sent) in counts.into_iter().enumerate() {
        let kept = kept(&running.address, client);
        // Every acknowledged round is stored once and in order; the one in progress at a kill may be stored or not.
        let numbers: Vec<usize> = kept
            .iter()
            .map(|sentence| {
                sentence
                    .trim_end_matches('.')
                    .rsplit(' ')
                    .next()
                    .unwrap()
                    .parse()
                    .unwrap()
            })
            .collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "client {client}: {numbers:?}");
        let lost = sent - numbers.len();
        assert!(
            lost <= seen.broken.load(Ordering::SeqCst),
            "client {client} lost {lost}"
        );
    }
}

/// Writes each round once and continues with the next when the connection breaks. Every acknowledged number must be stored,
/// which is checked at once on the next server. Returns the number of rounds sent.
fn write_rounds_once(
    address: &(impl Fn() -> String + Sync),
    client: usize,
    end: &AtomicBool,
    seen: &Seen,
) -> usize {
    let mut number = 0;
    let mut acknowledged = Vec::new();
    while !end.load(Ordering::SeqCst) {
        number += 1;
        let path = format!("/v1/conversations/client-{client}/rounds");
        match post(
            &address(),
            &path,
            &format!("{client}-{number}"),
            &round(client, number),
        ) {
            Some((201, _)) => {
                seen.acknowledged.fetch_add(1, Ordering::SeqCst);
                acknowledged.push(format!("Client {client} has written sentence {number}."));
            }
            Some((status, answer)) => panic!("{status}: {answer}"),
            None => {
                seen.broken.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
    let kept = kept(&address(), client);
    for sentence in acknowledged {
        assert!(kept.contains(&sentence), "lost: {sentence}");
    }
    number
}

fn kill(server: &mut Server) {
    server.child.kill().unwrap();
    server.child.wait().unwrap();
}
