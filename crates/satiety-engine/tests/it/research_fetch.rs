//! Hostile pages: internal addresses, redirects, bombs, and hostile text.

use std::io::Write as _;
use std::time::Duration;

use satiety_engine::research::fetch::{FetchError, FetchSettings, Fetcher};
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

fn strict() -> Fetcher {
    Fetcher::new(FetchSettings {
        timeout: Duration::from_secs(2),
        ..FetchSettings::default()
    })
    .unwrap()
}

/// Tests have only loopback, so tests that are not about addresses allow it.
fn lenient(change: impl FnOnce(&mut FetchSettings)) -> Fetcher {
    let mut settings = FetchSettings {
        timeout: Duration::from_secs(2),
        allow_private: true,
        robots: false,
        ..FetchSettings::default()
    };
    change(&mut settings);
    Fetcher::new(settings).unwrap()
}

async fn serve(route: &str, answer: ResponseTemplate) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(method("GET"))
        .and(path(route))
        .respond_with(answer)
        .mount(&server)
        .await;
    server
}

#[tokio::test]
async fn internal_addresses_are_refused_in_every_notation() {
    let server = MockServer::start().await;
    Mock::given(method("GET"))
        .respond_with(ResponseTemplate::new(200).set_body_string("secret"))
        .expect(0)
        .mount(&server)
        .await;
    let port = server.address().port();
    let fetcher = strict();
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "017700000001",
        "0177.0.0.1",
        "127.0.0.1.",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "foo.localhost",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[2002:7f00:1::]",
        "0.0.0.0",
        "0",
        "[::]",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "[fe80::1]",
        "[fc00::1]",
        "[ff02::1]",
        "metadata.google.internal",
        "１２７.０.０.１",
        "127。0。0。1",
    ] {
        let address = format!("http://{host}:{port}/");
        let error = fetcher.read(&address).await.expect_err(host);
        assert!(matches!(error, FetchError::Refused { .. }), "{host}: {error}");
    }
}

#[tokio::test]
async fn names_that_resolve_to_internal_addresses_are_refused() {
    // A name that is not on a list: this machine's host name, which resolves to loopback or a private address, if at all.
    let Ok(name) = fs_err::read_to_string("/proc/sys/kernel/hostname") else {
        return;
    };
    let error = strict()
        .read(&format!("http://{}.example/", name.trim()))
        .await
        .unwrap_err();
    assert!(
        matches!(error, FetchError::Failed { .. } | FetchError::Refused { .. }),
        "{error}"
    );
    // `localhost` without the list of names: the resolver itself must refuse the address.
    let error = strict().read("http://localhost6/").await.unwrap_err();
    assert!(
        matches!(error, FetchError::Refused { .. } | FetchError::Failed { .. }),
        "{error}"
    );
}

#[tokio::test]
async fn obfuscated_addresses_are_refused() {
    let fetcher = strict();
    for address in [
        "http://example.org@127.0.0.1/",
        "http://user:pass@example.org/",
        "http://example.org:80@127.0.0.1/",
        "file:///etc/passwd",
        "ftp://example.org/",
        "gopher://127.0.0.1:70/",
        "data:text/html,hello",
        "javascript:alert(1)",
        "http://",
        "http:///etc/passwd",
        "not an address",
        "",
    ] {
        let error = fetcher.read(address).await.expect_err(address);
        assert!(matches!(error, FetchError::Refused { .. }), "{address}: {error}");
    }
}

#[tokio::test]
async fn every_redirect_is_checked() {
    // Loopback is allowed here; multicast and other schemes never are.
    for target in [
        "http://224.0.0.1/",
        "file:///etc/passwd",
        "http://u@127.0.0.1/",
        "http://0.0.0.0/",
    ] {
        let moved = ResponseTemplate::new(302).insert_header("Location", target);
        let server = serve("/start", moved).await;
        let error = lenient(|_| {})
            .read(&format!("{}/start", server.uri()))
            .await
            .expect_err(target);
        assert!(matches!(error, FetchError::Refused { .. }), "{target}: {error}");
    }
    let round = serve(
        "/loop",
        ResponseTemplate::new(301).insert_header("Location", "/loop"),
    )
    .await;
    let error = lenient(|_| {})
        .read(&format!("{}/loop", round.uri()))
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "more than 5 redirects");
}

#[tokio::test]
async fn a_redirect_to_a_page_is_followed() {
    let server = serve(
        "/old",
        ResponseTemplate::new(301).insert_header("Location", "/new"),
    )
    .await;
    let page = ResponseTemplate::new(200).set_body_raw("plain words", "text/plain; charset=utf-8");
    Mock::given(path("/new")).respond_with(page).mount(&server).await;
    let page = lenient(|_| {})
        .read(&format!("{}/old", server.uri()))
        .await
        .unwrap();
    assert_eq!(page.markdown, "plain words");
}

#[tokio::test]
async fn large_compressed_and_slow_pages_are_aborted() {
    let small = |settings: &mut FetchSettings| settings.max_bytes = 10_000;
    let large = ResponseTemplate::new(200).set_body_raw("x".repeat(20_000), "text/plain");
    let server = serve("/large", large).await;
    let error = lenient(small)
        .read(&format!("{}/large", server.uri()))
        .await
        .unwrap_err();
    assert!(matches!(error, FetchError::TooLarge { limit: 10_000 }), "{error}");

    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packer.write_all(&vec![b'a'; 4 << 20]).unwrap();
    let bomb = packer.finish().unwrap();
    assert!(bomb.len() < 10_000, "{}", bomb.len());
    let packed = ResponseTemplate::new(200)
        .insert_header("Content-Encoding", "gzip")
        .set_body_raw(bomb, "text/plain");
    let server = serve("/bomb", packed).await;
    let error = lenient(small)
        .read(&format!("{}/bomb", server.uri()))
        .await
        .unwrap_err();
    assert!(matches!(error, FetchError::TooLarge { .. }), "{error}");

    let slow = ResponseTemplate::new(200).set_delay(Duration::from_secs(20));
    let server = serve("/slow", slow).await;
    let error = lenient(|settings| settings.timeout = Duration::from_millis(300))
        .read(&format!("{}/slow", server.uri()))
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "request timeout");
}

#[tokio::test]
async fn compressed_pages_are_decoded_and_other_types_refused() {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packer.write_all("Flügel".as_bytes()).unwrap();
    let packed = ResponseTemplate::new(200)
        .insert_header("Content-Encoding", "gzip")
        .set_body_raw(packer.finish().unwrap(), "text/plain");
    let server = serve("/packed", packed).await;
    let page = lenient(|_| {})
        .read(&format!("{}/packed", server.uri()))
        .await
        .unwrap();
    assert_eq!(page.markdown, "Flügel");
    for (encoding, kind) in [
        ("br", "text/plain"),
        ("identity", "image/png"),
        ("identity", "application/octet-stream"),
    ] {
        let odd = ResponseTemplate::new(200)
            .insert_header("Content-Encoding", encoding)
            .set_body_raw("x", kind);
        let server = serve("/odd", odd).await;
        let error = lenient(|_| {})
            .read(&format!("{}/odd", server.uri()))
            .await
            .unwrap_err();
        assert!(
            matches!(error, FetchError::Kind { .. }),
            "{encoding} {kind}: {error}"
        );
    }
    let gone = serve("/gone", ResponseTemplate::new(404)).await;
    let error = lenient(|_| {})
        .read(&format!("{}/gone", gone.uri()))
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "HTTP status 404");
}

#[tokio::test]
async fn robots_txt_is_respected() {
    let robots = ResponseTemplate::new(200).set_body_string("User-agent: *\nDisallow: /private\n");
    let server = serve("/robots.txt", robots).await;
    Mock::given(path("/open"))
        .respond_with(ResponseTemplate::new(200).set_body_raw("hello", "text/plain"))
        .mount(&server)
        .await;
    Mock::given(path("/private"))
        .respond_with(ResponseTemplate::new(200))
        .expect(0)
        .mount(&server)
        .await;
    let polite = lenient(|settings| settings.robots = true);
    assert_eq!(
        polite
            .read(&format!("{}/open", server.uri()))
            .await
            .unwrap()
            .markdown,
        "hello"
    );
    let error = polite
        .read(&format!("{}/private", server.uri()))
        .await
        .unwrap_err();
    assert!(matches!(error, FetchError::Robots), "{error}");
    let broken = serve("/robots.txt", ResponseTemplate::new(503)).await;
    let error = polite.read(&format!("{}/x", broken.uri())).await.unwrap_err();
    assert!(
        matches!(error, FetchError::Robots),
        "an unavailable robots.txt must block: {error}"
    );
}

#[tokio::test]
async fn pages_are_truncated_and_decoded() {
    let latin = ResponseTemplate::new(200)
        .set_body_raw(b"Fl\xfcgel und mehr".to_vec(), "text/plain; charset=iso-8859-1");
    let server = serve("/latin", latin).await;
    let page = lenient(|settings| settings.max_chars = 6)
        .read(&format!("{}/latin", server.uri()))
        .await
        .unwrap();
    assert_eq!(page.markdown, "Flügel");
}
