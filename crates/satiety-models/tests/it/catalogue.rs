//! Specifications, opening and verification.
use std::path::PathBuf;
use std::time::Duration;

use satiety_models::catalogue::{Spec, catalogue, open, verify};
use satiety_models::http::{HttpPolicy, HttpSettings};
use satiety_models::minilm::MiniLm;
use satiety_models::{EmbedFuture, Embedder, EmbedderId};
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, ResponseTemplate};

fn quick() -> HttpSettings {
    HttpSettings {
        policy: HttpPolicy::single_attempt(Some(Duration::from_secs(5))),
        ..HttpSettings::default()
    }
}

async fn open_error(spec: &str) -> String {
    open(&spec.parse().unwrap(), &quick())
        .await
        .unwrap_err()
        .to_string()
}

#[test]
fn specifications_are_unambiguous() {
    let remote = |model: &str, url: &str| (model.to_owned(), url.to_owned());
    let ollama = |(model, url)| Spec::Ollama { model, url };
    let openai = |(model, url)| Spec::OpenAi { model, url };
    let cases = [
        ("builtin", Spec::Builtin),
        (" builtin\n", Spec::Builtin),
        (
            "dir:models/mini lm",
            Spec::Folder(PathBuf::from("models/mini lm")),
        ),
        ("dir:C:\\models", Spec::Folder(PathBuf::from("C:\\models"))),
        (
            "ollama:nomic-embed-text:v1.5",
            ollama(remote("nomic-embed-text:v1.5", "http://localhost:11434")),
        ),
        (
            "ollama:a@https://host:1/x",
            ollama(remote("a", "https://host:1/x")),
        ),
        (
            "openai:text-embedding-3-small",
            openai(remote("text-embedding-3-small", "https://api.openai.com/v1")),
        ),
        (
            "openai:@cf/baai/bge@http://host/v1",
            openai(remote("@cf/baai/bge", "http://host/v1")),
        ),
    ];
    for (text, expected) in cases {
        let spec: Spec = text.parse().unwrap();
        assert_eq!(spec, expected);
        assert_eq!(spec.to_string().parse::<Spec>().unwrap(), spec);
    }
    for text in [
        "",
        "minilm",
        "builtin:x",
        "dir:",
        "ollama",
        "ollama:",
        "openai:@http://host",
        "openai:a b",
    ] {
        let error = text.parse::<Spec>().unwrap_err().to_string();
        assert!(error.contains(&format!("invalid embedder `{text}`: ")), "{error}");
    }
}

#[test]
fn the_catalogue_starts_with_the_built_in_model() {
    let entries = catalogue();
    assert_eq!((entries[0].spec, entries[0].needs), ("builtin", "nothing"));
    assert_eq!(entries[0].id, Some(MiniLm::builtin().unwrap().id().clone()));
    assert_eq!(entries.len(), 4);
}

#[tokio::test]
async fn the_built_in_model_opens_and_verifies() {
    let embedder = open(&Spec::Builtin, &quick()).await.unwrap();
    let verification = verify(&*embedder).await.unwrap();
    assert!(verification.passed(), "{verification:?}");
    assert_eq!(verification.checks.len(), 6);
}

/// Claims to be the built-in model and rotates all its vectors a little.
#[derive(Debug)]
struct Impostor(MiniLm);

impl Embedder for Impostor {
    fn id(&self) -> &EmbedderId {
        self.0.id()
    }

    fn dimension(&self) -> usize {
        self.0.dimension()
    }

    fn embed<'a>(&'a self, texts: &'a [&'a str]) -> EmbedFuture<'a> {
        Box::pin(async move {
            let mut vectors = self.0.embed(texts).await?;
            for (place, vector) in vectors.iter_mut().enumerate() {
                vector[place] += 0.5;
            }
            Ok(vectors)
        })
    }
}

#[tokio::test]
async fn vectors_of_another_model_fail_verification() {
    let verification = verify(&Impostor(MiniLm::builtin().unwrap())).await.unwrap();
    let failed: Vec<&str> = verification
        .checks
        .iter()
        .filter(|check| !check.passed)
        .map(|check| check.name)
        .collect();
    assert!(failed.contains(&"cosines match the reference"), "{failed:?}");
    assert!(failed.contains(&"vectors have unit length"), "{failed:?}");
    assert!(
        failed.contains(&"the same text gives the same vector"),
        "{failed:?}"
    );
    assert!(!verification.passed());
}

#[tokio::test]
async fn missing_models_have_a_hint() {
    let message = open_error("dir:/no/such/folder").await;
    assert!(
        message.contains("/no/such/folder not found: download config.json"),
        "{message}"
    );
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let message = open_error(&format!("ollama:nomic@http://{free}")).await;
    assert!(
        message.contains("start it with `ollama serve`") && message.contains("refused"),
        "{message}"
    );
    let server = MockServer::start().await;
    Mock::given(method("POST"))
        .respond_with(ResponseTemplate::new(401))
        .mount(&server)
        .await;
    let message = open_error(&format!("openai:m@{}", server.uri())).await;
    assert!(message.contains("set the API key"), "{message}");
}
