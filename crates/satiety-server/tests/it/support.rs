//! A server on a free port with a separate database; everything is removed on drop.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder, Response};
use satiety_engine::research::sources::AllowedSources;
use satiety_engine::tokens::{CreateTokenRequest, Scope};
use satiety_engine::{Engine, Settings};
use satiety_server::auth::{Access, Auth, Names, RateSettings};
use satiety_server::http::{
    AllowedRoots, App, Limits, Mounts, ResearchAccess, TenantSettings, Tls, bind, router,
};
use satiety_server::mcp::Context;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Options of a server.
pub(crate) struct Options {
    pub(crate) access: Access,
    pub(crate) limits: Limits,
    pub(crate) rate: Option<u32>,
    pub(crate) root: Option<PathBuf>,
    pub(crate) research: String,
    pub(crate) tls: Option<Tls>,
    pub(crate) names: Vec<String>,
    /// URL of the database; by default a file.
    pub(crate) store: Option<String>,
    pub(crate) tenants: TenantSettings,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            access: Access::Open,
            limits: Limits {
                headers: Duration::from_secs(2),
                shutdown: Duration::from_secs(5),
                ..Limits::default()
            },
            rate: None,
            root: None,
            research: String::new(),
            tls: None,
            names: Vec::new(),
            store: None,
            tenants: TenantSettings::default(),
        }
    }
}

/// A running server.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) engine: Arc<Engine>,
    pub(crate) app: Arc<App>,
    pub(crate) client: Client,
    scheme: &'static str,
    end: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<bool>>,
    pub(crate) folder: tempfile::TempDir,
}

/// Starts a server with the defaults.
pub(crate) async fn start() -> Running {
    start_with(Options::default()).await
}

/// An engine with a separate database, without a sentence model.
pub(crate) fn engine(folder: &std::path::Path) -> Arc<Engine> {
    let store = format!("sqlite:{}", folder.join("store.db").display());
    engine_on(&store, folder)
}

/// An engine on this database, without a sentence model.
pub(crate) fn engine_on(store: &str, folder: &std::path::Path) -> Arc<Engine> {
    Arc::new(Engine::new(Settings {
        store: store.parse().unwrap(),
        archive_folder: folder.join("archive"),
        embedder: "none".into(),
        chat: None,
        api_key: None,
        anthropic_key: None,
    }))
}

/// Starts a server.
pub(crate) async fn start_with(options: Options) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let engine = match &options.store {
        Some(store) => engine_on(store, folder.path()),
        None => engine(folder.path()),
    };
    let rates = RateSettings {
        per_second: options.rate.and_then(NonZeroU32::new),
        burst: NonZeroU32::new(5).unwrap(),
    };
    let auth = Auth::new(options.access, Names::new(options.names), rates);
    let encrypted = options.tls.is_some();
    let folders = AllowedRoots {
        root: options.root,
        harness: folder.path().join("harness"),
        research: ResearchAccess {
            sources: AllowedSources::read(&options.research).unwrap(),
            ..ResearchAccess::default()
        },
        ..AllowedRoots::default()
    };
    let app = Arc::new(App::new(engine.clone(), auth, options.limits, folders, encrypted));
    app.open().await.unwrap();
    let listening = bind("127.0.0.1:0".parse().unwrap(), options.tls).await.unwrap();
    let address = listening.address().unwrap();
    let mounts = Mounts {
        pages: Some(satiety_server::dashboard::pages()),
        mcp: None,
    };
    let service = router(app.clone(), mounts);
    app.serve_tenants(options.tenants, |app| Mounts {
        pages: Some(satiety_server::dashboard::pages()),
        mcp: Some(satiety_server::http::mcp(
            app,
            Context::new(app.engine.clone()),
            &[],
        )),
    });
    let kept = app.clone();
    let (end, ended) = oneshot::channel();
    let task = tokio::spawn(listening.serve(app, service, async {
        let _ = ended.await;
    }));
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::builder()
        .no_proxy()
        .timeout(Duration::from_secs(30))
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap();
    Running {
        address,
        engine,
        app: kept,
        client,
        scheme: if encrypted { "https" } else { "http" },
        end: Some(end),
        task: Some(task),
        folder,
    }
}

impl Running {
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.address)
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, self.url(path))
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        Answer::of(self.request(Method::GET, path).send().await.unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        Answer::of(self.request(Method::POST, path).json(body).send().await.unwrap()).await
    }

    pub(crate) async fn token(&self, scope: Scope) -> String {
        let request = CreateTokenRequest {
            name: scope.name().into(),
            scope,
            expires_in_days: None,
        };
        self.engine.tokens().create(request).await.unwrap().token
    }

    /// Shuts the server down; the task returns whether all requests finished.
    pub(crate) fn end(&mut self) -> JoinHandle<bool> {
        let _ = self.end.take().unwrap().send(());
        self.task.take().unwrap()
    }

    /// Sends raw bytes and reads until the server closes the connection.
    pub(crate) async fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        let _ = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut answer)).await;
        String::from_utf8_lossy(&answer).into_owned()
    }
}

/// A response.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) async fn of(response: Response) -> Self {
        Self {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            text: response.text().await.unwrap(),
        }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The body, if the status is the expected one.
    pub(crate) fn ok(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.json()
    }
}

/// A round with these claims.
pub(crate) fn round(number: u32, claims: &[&str]) -> Value {
    serde_json::json!({"round": number, "agent": "a", "outputs": {"claims": claims,
        "next_actions": ["Write the migration in db/0007.sql"]}})
}
