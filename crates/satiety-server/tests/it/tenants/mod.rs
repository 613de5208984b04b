//! Tenants of a server: isolation, quotas, life cycle, on both engines.

mod isolation;
mod life;
mod quotas;
mod seed;

use reqwest::Method;
use satiety_engine::tenants::CreateTenantRequest;
use satiety_engine::tokens::{CreateTokenRequest, Scope};
use satiety_server::auth::Access;
use serde_json::Value;

use crate::support::{Answer, Options, Running};

/// Options of a server that requires tokens.
fn guarded() -> Options {
    Options {
        access: Access::Tokens,
        ..Options::default()
    }
}

/// URL of a new PostgreSQL database; `None` without a server.
#[expect(clippy::print_stdout, reason = "says that a test is skipped")]
async fn postgres() -> Option<String> {
    let Ok(server) = std::env::var("SATIETY_TEST_POSTGRES") else {
        println!("skipped: SATIETY_TEST_POSTGRES is not set; `cargo xtask test` starts a server and sets it");
        return None;
    };
    let main = crate::support::engine_on(&server, std::path::Path::new("."));
    let name = format!("s{}", uuid::Uuid::now_v7().simple());
    // A tenant's database is a new database: `DATABASE_t_NAME`.
    let request = CreateTenantRequest {
        name: name.clone(),
        ..CreateTenantRequest::default()
    };
    let created = main.tenants().create(request).await.unwrap();
    main.tenants().delete(&name, false).await.unwrap();
    main.close().await;
    let (base, database) = server.rsplit_once('/').unwrap();
    let database = database.split('?').next().unwrap();
    assert!(created.store.contains(&format!("{database}_t_{name}")));
    Some(format!("{base}/{database}_t_{name}"))
}

impl Running {
    async fn create_tenant(&self, request: CreateTenantRequest) {
        self.engine.tenants().create(request).await.unwrap();
    }

    async fn tenant(&self, name: &str) {
        let name = name.to_owned();
        self.create_tenant(CreateTenantRequest {
            name,
            ..CreateTenantRequest::default()
        })
        .await;
    }

    /// A token of a tenant.
    async fn tenant_token(&self, tenant: &str, scope: Scope) -> String {
        let engine = self.engine.tenant(tenant).await.unwrap();
        let request = CreateTokenRequest {
            name: format!("{tenant}-{scope}"),
            scope,
            expires_in_days: None,
        };
        let created = engine.tokens().create(request).await.unwrap();
        assert_eq!(created.about.tenant.as_deref(), Some(tenant));
        created.token
    }

    async fn send_as(&self, token: &str, method: Method, path: &str, body: Option<&Value>) -> Answer {
        let mut request = self.request(method, path).bearer_auth(token);
        if let Some(body) = body {
            request = request.json(body);
        }
        Answer::of(request.send().await.unwrap()).await
    }

    async fn get_as(&self, token: &str, path: &str) -> Answer {
        self.send_as(token, Method::GET, path, None).await
    }

    async fn post_as(&self, token: &str, path: &str, body: &Value) -> Answer {
        self.send_as(token, Method::POST, path, Some(body)).await
    }
}
