//! Rate limits that workers share: processes that call one target together stay below the limit, and a pause that
//! the target asks one of them for applies to all.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::until;
use crate::workers::{Cluster, both, results};

/// An HTTP target that records when requests arrive, and rejects some of them.
struct RecordingTarget {
    url: String,
    arrivals: Arc<Mutex<Vec<Instant>>>,
}

impl RecordingTarget {
    /// Request number `rejected` gets 429 with this `Retry-After` in seconds.
    fn start(rejected: Option<(usize, u32)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let arrivals = Arc::new(Mutex::new(Vec::new()));
        let seen = arrivals.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let seen = seen.clone();
                std::thread::spawn(move || answer(stream, &seen, rejected));
            }
        });
        Self { url, arrivals }
    }

    fn seconds(&self) -> Vec<f64> {
        let arrivals = self.arrivals.lock().unwrap();
        let mut seconds: Vec<f64> = arrivals
            .iter()
            .map(|at| at.duration_since(arrivals[0]).as_secs_f64())
            .collect();
        seconds.sort_by(f64::total_cmp);
        seconds
    }
}

/// Answers the requests of a connection.
fn answer(mut stream: TcpStream, arrivals: &Mutex<Vec<Instant>>, rejected: Option<(usize, u32)>) {
    let mut buffer = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let head = buffer.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(head) = head {
            let text = String::from_utf8_lossy(&buffer[..head]).to_lowercase();
            let length = text
                .lines()
                .find_map(|line| line.strip_prefix("content-length:"))
                .map_or(0, |value| value.trim().parse().unwrap());
            if buffer.len() >= head + 4 + length {
                buffer.drain(..head + 4 + length);
                let number = {
                    let mut arrivals = arrivals.lock().unwrap();
                    arrivals.push(Instant::now());
                    arrivals.len()
                };
                let body = r#"{"output": "ok"}"#;
                let (status, more) = match rejected {
                    Some((at, seconds)) if at == number => {
                        ("429 Too Many Requests", format!("Retry-After: {seconds}\r\n"))
                    }
                    _ => ("200 OK", String::new()),
                };
                let _ = write!(
                    stream,
                    "HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{more}Content-Length: {}\r\n\r\n{body}",
                    body.len()
                );
                continue;
            }
        }
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return,
            Ok(read) => buffer.extend_from_slice(&chunk[..read]),
        }
    }
}

fn suite(cluster: &Cluster, cases: usize, url: &str) {
    let cases: Vec<(String, String)> = (0..cases)
        .map(|number| (format!("question {number:03}"), "ok".to_owned()))
        .collect();
    cluster.suite(&cases, &format!("type = 'http'\nurl = '{url}'\n"));
}

#[test]
fn three_processes_together_stay_below_the_limit() {
    for cluster in both() {
        let target = RecordingTarget::start(None);
        let (cases, rate) = (24, 120);
        suite(&cluster, cases, &target.url);
        let run = cluster.detach(&["--rpm", &rate.to_string()]);
        let began = Instant::now();
        let mut workers: Vec<_> = (0..3)
            .map(|_| cluster.worker(&["-j", "4", "--lease", "2"]))
            .collect();
        // One of them is killed with the permits and cases that it holds; another one takes its place.
        until("some calls", Duration::from_secs(20), || {
            target.seconds().len() > 8
        });
        drop(workers.pop());
        workers.push(cluster.worker(&["-j", "4", "--lease", "2"]));
        until("an end", Duration::from_mins(1), || {
            !cluster.report(&run)["completed_at"].is_null()
        });
        let seconds = target.seconds();
        assert!(seconds.len() >= cases);
        assert_eq!(results(&cluster.report(&run)).len(), cases);
        // A slot is 62/120 seconds long. Permits are valid for 2 seconds, and slots of the last second are given out
        // after a pause: any window has the slots of its own length and of 3 seconds more.
        let interval = 62.0 / f64::from(rate);
        for (first, from) in seconds.iter().enumerate() {
            for (last, to) in seconds.iter().enumerate().skip(first) {
                let most = (to - from + 3.0) / interval + 1.0;
                assert!(
                    ((last - first + 1) as f64) <= most,
                    "{} calls within {} s: {seconds:?}",
                    last - first + 1,
                    to - from
                );
            }
        }
        let took = began.elapsed().as_secs_f64();
        assert!(took < 40.0, "{took} s for {cases} calls");
    }
}

#[test]
fn a_pause_of_the_target_slows_all_workers() {
    // With and without a limit of the run.
    for more in [&["--rpm", "6000"][..], &[]] {
        let cluster = Cluster::sqlite();
        let target = RecordingTarget::start(Some((20, 4)));
        suite(&cluster, 4000, &target.url);
        let run = cluster.detach(more);
        let workers: Vec<_> = (0..3).map(|_| cluster.worker(&["-j", "1"])).collect();
        until("calls after the pause", Duration::from_secs(30), || {
            target.seconds().last().is_some_and(|last| *last > 5.0)
        });
        drop(workers);
        let seconds = target.seconds();
        let pause = seconds
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .fold(0.0, f64::max);
        // Workers notice the pause within a poll and the end of their calls.
        assert!(pause > 2.5, "longest pause {pause} s, {} calls", seconds.len());
        let cancelled: Value = cluster.json(&["bench", "cancel", &run, "--format", "json"]);
        assert_ne!(cancelled["dropped"], json!(0));
    }
}
