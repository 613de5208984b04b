//! The three chat protocols against local servers: requests, parsed answers and errors.
use std::time::{Duration, Instant};

use satiety_models::Chat as _;
use satiety_models::chat::{
    ChatAnswer, ChatError, ChatMessage, ChatRequest, HttpChat, JsonSchema, Provider, Spec, StopReason, Usage,
};
use satiety_models::http::{ApiKey, HttpPolicy, HttpSettings, TransportError};
use satiety_models::{AddressOrigin, KeyOwner};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use wiremock::matchers::{body_json, header, method, path};
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

const PROVIDERS: [Provider; 3] = [Provider::Ollama, Provider::OpenAi, Provider::Anthropic];

fn settings() -> HttpSettings {
    HttpSettings {
        address_origin: AddressOrigin::Given,
        policy: HttpPolicy {
            retries: 2,
            first_pause: Duration::from_millis(5),
            timeout: Some(Duration::from_secs(5)),
            ..HttpPolicy::default()
        },
        ..HttpSettings::default()
    }
}

fn endpoint(provider: Provider) -> &'static str {
    match provider {
        Provider::Ollama => "/api/chat",
        Provider::OpenAi => "/v1/chat/completions",
        Provider::Anthropic => "/v1/messages",
    }
}

/// An answer from the provider's documentation, shortened.
fn answer(provider: Provider, text: &str, stop: &str) -> Value {
    match provider {
        Provider::Ollama => json!({"model": "m", "message": {"role": "assistant", "content": text},
            "done_reason": stop, "done": true, "prompt_eval_count": 26, "eval_count": 12}),
        Provider::OpenAi => json!({"id": "chatcmpl-1", "object": "chat.completion", "choices": [{"index": 0,
            "message": {"role": "assistant", "content": text, "refusal": null}, "finish_reason": stop}],
            "usage": {"prompt_tokens": 26, "completion_tokens": 12, "total_tokens": 38}}),
        Provider::Anthropic => json!({"id": "msg_1", "type": "message", "role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": text}],
            "stop_reason": stop, "usage": {"input_tokens": 20, "cache_read_input_tokens": 6, "output_tokens": 12}}),
    }
}

fn end(provider: Provider) -> &'static str {
    match provider {
        Provider::Anthropic => "end_turn",
        _ => "stop",
    }
}

fn schema() -> JsonSchema {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
        "additionalProperties": false});
    JsonSchema {
        name: "number",
        schema,
    }
}

fn request(schema: Option<JsonSchema>) -> ChatRequest {
    ChatRequest {
        messages: vec![
            ChatMessage::system("Be brief."),
            ChatMessage::user("One?"),
            ChatMessage::assistant("1"),
            ChatMessage::user("Two?"),
        ],
        temperature: Some(0.0),
        max_tokens: 100,
        schema,
    }
}

fn chat(provider: Provider, url: &str, settings: HttpSettings) -> HttpChat {
    let spec: Spec = format!("{provider}:m@{url}").parse().unwrap();
    HttpChat::new(&spec, settings).unwrap()
}

async fn server(provider: Provider, answer: impl Respond + 'static) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(method("POST"))
        .and(path(endpoint(provider)))
        .respond_with(answer)
        .mount(&server)
        .await;
    server
}

fn ok(body: &Value) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(body)
}

async fn ask(
    provider: Provider,
    with: impl Respond + 'static,
    schema: Option<JsonSchema>,
) -> Result<ChatAnswer, ChatError> {
    let server = server(provider, with).await;
    chat(provider, &server.uri(), settings())
        .complete(request(schema))
        .await
}

#[tokio::test]
async fn every_protocol_follows_its_documentation() {
    let turns = json!([{"role": "user", "content": "One?"}, {"role": "assistant", "content": "1"},
        {"role": "user", "content": "Two?"}]);
    let mut all = json!([{"role": "system", "content": "Be brief."}]);
    all.as_array_mut()
        .unwrap()
        .extend(turns.as_array().unwrap().clone());
    for provider in PROVIDERS {
        let expected = match provider {
            // 18 bytes of messages, 100 tokens of answer and a margin: 9 + 100 + 64, rounded up to the next power of two.
            Provider::Ollama => json!({"model": "m", "messages": all, "stream": false,
                "options": {"temperature": 0.0, "num_predict": 100, "num_ctx": 256}}),
            Provider::OpenAi => json!({"model": "m", "messages": all, "temperature": 0.0, "max_tokens": 100}),
            Provider::Anthropic => json!({"model": "m", "system": "Be brief.", "messages": turns,
                "temperature": 0.0, "max_tokens": 100}),
        };
        let server = MockServer::start().await;
        Mock::given(method("POST"))
            .and(path(endpoint(provider)))
            .and(body_json(&expected))
            .respond_with(ok(&answer(provider, "2", end(provider))))
            .mount(&server)
            .await;
        let chat = chat(provider, &server.uri(), settings());
        assert_eq!(chat.id(), format!("{provider}:m@{}", server.uri()));
        let answer = chat.complete(request(None)).await.unwrap();
        let usage = Usage {
            input_tokens: Some(26),
            output_tokens: Some(12),
        };
        assert_eq!(
            answer,
            ChatAnswer {
                text: "2".into(),
                usage,
                stop: StopReason::End
            }
        );
    }
}

#[tokio::test]
async fn structured_output_is_requested_per_protocol() {
    for provider in PROVIDERS {
        let server = server(provider, ok(&answer(provider, " {\"n\": 2}\n", end(provider)))).await;
        let chat = chat(provider, &server.uri(), settings());
        let answer = chat.complete(request(Some(schema()))).await.unwrap();
        assert_eq!(answer.text, "{\"n\": 2}");
        let sent: Value = server.received_requests().await.unwrap()[0].body_json().unwrap();
        let schema = schema().schema;
        match provider {
            Provider::Ollama => assert_eq!(sent["format"], schema),
            Provider::OpenAi => assert_eq!(
                sent["response_format"],
                json!({"type": "json_schema", "json_schema": {"name": "number", "strict": true, "schema": schema}})
            ),
            Provider::Anthropic => {
                assert_eq!(
                    sent["output_config"],
                    json!({"format": {"type": "json_schema", "schema": schema}})
                );
            }
        }
    }
}

#[tokio::test]
async fn json_is_extracted_from_a_markdown_block() {
    let fenced = answer(Provider::OpenAi, "```json\n{\"n\": 2}\n```", "stop");
    let answer = ask(Provider::OpenAi, ok(&fenced), Some(schema())).await.unwrap();
    assert_eq!(answer.text, "{\"n\": 2}");
}

#[tokio::test]
async fn keys_are_sent_per_protocol_and_never_displayed() {
    for provider in PROVIDERS {
        let server = MockServer::start().await;
        let mock = match provider {
            Provider::Anthropic => {
                Mock::given(header("x-api-key", "sk-secret")).and(header("anthropic-version", "2023-06-01"))
            }
            _ => Mock::given(header("authorization", "Bearer sk-secret")),
        };
        mock.respond_with(ok(&answer(provider, "2", end(provider))))
            .mount(&server)
            .await;
        let with_key = |key: &str| HttpSettings {
            api_key: Some(ApiKey::new(
                key,
                match provider {
                    Provider::Anthropic => KeyOwner::Anthropic,
                    _ => KeyOwner::OpenAi,
                },
            )),
            ..settings()
        };
        let chat = chat(provider, &server.uri(), with_key(" sk-secret\n"));
        chat.complete(request(None)).await.unwrap();
        assert!(!format!("{chat:?}").contains("secret"));
        server.reset().await;
        let error = chat.complete(request(None)).await.unwrap_err();
        assert!(!format!("{error:?} {error}").contains("secret"));
        let bad = self::chat(provider, &server.uri(), with_key("sk-secret\nline"));
        let error = bad.complete(request(None)).await.unwrap_err();
        assert!(
            error.to_string().contains("check that the API key is one line"),
            "{error}"
        );
        assert!(!format!("{error:?} {error}").contains("secret"));
    }
}

#[tokio::test]
async fn a_password_in_the_address_is_used_and_not_displayed() {
    let server = server(Provider::OpenAi, ok(&answer(Provider::OpenAi, "2", "stop"))).await;
    let url = server.uri().replace("http://", "http://user:secret@");
    let chat = chat(Provider::OpenAi, &url, settings());
    chat.complete(request(None)).await.unwrap();
    assert!(!chat.id().contains("secret"), "{}", chat.id());
    let sent = &server.received_requests().await.unwrap()[0];
    assert!(
        sent.headers["authorization"]
            .to_str()
            .unwrap()
            .starts_with("Basic ")
    );
}

#[tokio::test]
async fn too_many_requests_waits_for_retry_after() {
    for provider in PROVIDERS {
        let server = MockServer::start().await;
        let busy = ResponseTemplate::new(429).insert_header("retry-after", "1");
        Mock::given(method("POST"))
            .respond_with(busy)
            .up_to_n_times(1)
            .with_priority(1)
            .mount(&server)
            .await;
        Mock::given(method("POST"))
            .respond_with(ok(&answer(provider, "2", end(provider))))
            .mount(&server)
            .await;
        let begin = Instant::now();
        chat(provider, &server.uri(), settings())
            .complete(request(None))
            .await
            .unwrap();
        assert!(begin.elapsed() >= Duration::from_secs(1), "{:?}", begin.elapsed());
    }
}

#[tokio::test]
async fn server_errors_are_retried_and_then_reported() {
    for provider in PROVIDERS {
        // 529 is Anthropic's "overloaded".
        let server = server(
            provider,
            ResponseTemplate::new(529).set_body_string("over\n loaded"),
        )
        .await;
        let error = chat(provider, &server.uri(), settings())
            .complete(request(None))
            .await
            .unwrap_err();
        let expected = format!("{}{} answered 529: over loaded", server.uri(), endpoint(provider));
        assert_eq!(error.to_string(), expected);
        assert_eq!(server.received_requests().await.unwrap().len(), 3);
    }
}

#[tokio::test]
async fn a_slow_server_times_out() {
    let server = server(
        Provider::Anthropic,
        ResponseTemplate::new(200).set_delay(Duration::from_secs(30)),
    )
    .await;
    let impatient = HttpSettings {
        policy: HttpPolicy {
            timeout: Some(Duration::from_millis(100)),
            retries: 1,
            ..settings().policy
        },
        ..settings()
    };
    let begin = Instant::now();
    let error = chat(Provider::Anthropic, &server.uri(), impatient)
        .complete(request(None))
        .await
        .unwrap_err();
    assert!(
        matches!(error, ChatError::Transport(TransportError::Timeout { .. })),
        "{error}"
    );
    assert!(begin.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn invalid_answers_are_reported() {
    let cases = [
        (
            Provider::Ollama,
            r#"{"message": {"content": "2"#,
            "EOF while parsing",
        ),
        (
            Provider::Ollama,
            r#"{"error": "busy"}"#,
            "missing field `message`",
        ),
        (Provider::OpenAi, "<html>hello</html>", "<html>hello</html>"),
        (Provider::OpenAi, r#"{"choices": []}"#, "`choices` is empty"),
        (Provider::Anthropic, r#"{"content": "2"}"#, "invalid type: string"),
    ];
    for (provider, body, expected) in cases {
        let error = ask(provider, ResponseTemplate::new(200).set_body_string(body), None)
            .await
            .unwrap_err();
        assert!(
            matches!(error, ChatError::Transport(TransportError::BadAnswer { .. })),
            "{error:?}"
        );
        assert!(error.to_string().contains(expected), "{error} lacks {expected}");
    }
}

#[tokio::test]
async fn truncated_bodies_are_retried_and_then_reported() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let accepting = tokio::spawn(async move {
        for _ in 0..3 {
            let (mut stream, _) = listener.accept().await.unwrap();
            assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
            let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{\"choices\"";
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    let error = chat(Provider::OpenAi, &url, settings())
        .complete(request(None))
        .await
        .unwrap_err();
    assert!(
        matches!(error, ChatError::Transport(TransportError::Unreachable { .. })),
        "{error:?}"
    );
    accepting.await.unwrap();
}

#[tokio::test]
async fn refusals_and_empty_answers_are_errors() {
    let mut refusal = answer(Provider::OpenAi, "", "stop");
    refusal["choices"][0]["message"] = json!({"role": "assistant", "content": null, "refusal": "I'm sorry."});
    let cases = [
        (Provider::OpenAi, refusal, "refused to answer: I'm sorry."),
        (
            Provider::OpenAi,
            answer(Provider::OpenAi, "", "content_filter"),
            "blocked by a content filter",
        ),
        (
            Provider::Anthropic,
            answer(Provider::Anthropic, "", "refusal"),
            "refused to answer: no reason given",
        ),
        (
            Provider::Anthropic,
            answer(Provider::Anthropic, " ", "end_turn"),
            "empty answer (stop reason `end_turn`)",
        ),
        (
            Provider::Ollama,
            answer(Provider::Ollama, "\n", "stop"),
            "empty answer (stop reason `stop`)",
        ),
    ];
    for (provider, body, expected) in cases {
        for schema in [None, Some(schema())] {
            let error = ask(provider, ok(&body), schema).await.unwrap_err().to_string();
            assert!(error.contains(expected), "{error} lacks {expected}");
            assert!(error.starts_with(&format!("{provider}:m@http://")), "{error}");
        }
    }
}

#[tokio::test]
async fn text_instead_of_json_is_quoted_in_the_error() {
    let words = format!("Sure! Here are the numbers you wanted: {}", "two ".repeat(500));
    for provider in PROVIDERS {
        let error = ask(
            provider,
            ok(&answer(provider, &words, end(provider))),
            Some(schema()),
        )
        .await
        .unwrap_err();
        let ChatError::NotJson { beginning, .. } = &error else {
            panic!("{error:?}")
        };
        assert!(beginning.starts_with("Sure! Here are the numbers"), "{beginning}");
        assert!(error.to_string().len() < 500, "{error}");
    }
}

#[tokio::test]
async fn a_truncated_answer_is_invalid_json_and_partial_text() {
    for (provider, stop) in PROVIDERS.into_iter().zip(["length", "length", "max_tokens"]) {
        let half = answer(provider, "{\"n\": ", stop);
        let error = ask(provider, ok(&half), Some(schema())).await.unwrap_err();
        assert!(matches!(error, ChatError::CutOff { limit: 100, .. }), "{error:?}");
        let answer = ask(provider, ok(&half), None).await.unwrap();
        assert_eq!(
            (answer.text.as_str(), answer.stop),
            ("{\"n\": ", StopReason::Limit)
        );
    }
}

/// Rejects parameters that newer models reject, with their error messages.
fn picky(request: &Request) -> ResponseTemplate {
    let body: Value = request.body_json().unwrap();
    let refuse = |message: &str| {
        ResponseTemplate::new(400)
            .set_body_json(json!({"error": {"message": message, "type": "invalid_request_error"}}))
    };
    let anthropic = request.url.path() == "/v1/messages";
    if body.get("max_tokens").is_some() && !anthropic {
        refuse(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        )
    } else if body.get("temperature").is_some() {
        refuse("`temperature` is deprecated for this model.")
    } else {
        let provider = if anthropic {
            Provider::Anthropic
        } else {
            Provider::OpenAi
        };
        ok(&answer(provider, "2", end(provider)))
    }
}

#[tokio::test]
async fn rejected_parameters_are_omitted_in_later_requests() {
    for (provider, first, second) in [(Provider::OpenAi, 3, 4), (Provider::Anthropic, 2, 3)] {
        let server = server(provider, picky).await;
        let chat = chat(provider, &server.uri(), settings());
        for expected in [first, second] {
            assert_eq!(chat.complete(request(None)).await.unwrap().text, "2");
            assert_eq!(server.received_requests().await.unwrap().len(), expected);
        }
    }
    // An unrelated refusal is reported, not retried.
    let server = server(
        Provider::OpenAi,
        ResponseTemplate::new(400).set_body_string("no such temperature"),
    )
    .await;
    let chat = chat(Provider::OpenAi, &server.uri(), settings());
    let without = ChatRequest {
        temperature: None,
        ..request(None)
    };
    let error = chat.complete(without).await.unwrap_err();
    assert!(
        error.to_string().contains("answered 400: no such temperature"),
        "{error}"
    );
    assert_eq!(server.received_requests().await.unwrap().len(), 1);
}

#[tokio::test]
async fn missing_models_and_keys_have_a_hint() {
    let missing = || ResponseTemplate::new(404).set_body_string("model 'm' not found");
    let error = ask(Provider::Ollama, missing(), None)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("ollama pull m") && error.contains("not found"),
        "{error}"
    );
    let error = ask(Provider::Anthropic, missing(), None)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("check the model name"), "{error}");
    let error = ask(Provider::OpenAi, ResponseTemplate::new(401), None)
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            ChatError::NoAccess {
                provider: Provider::OpenAi,
                status: 401,
                ..
            }
        ),
        "{error:?}"
    );
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let unreachable_model = chat(Provider::Ollama, &format!("http://{free}"), settings());
    let error = unreachable_model
        .complete(request(None))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("start it with `ollama serve`"), "{error}");
}

#[tokio::test]
async fn a_v1_suffix_is_not_duplicated() {
    for provider in [Provider::OpenAi, Provider::Anthropic] {
        let server = server(provider, ok(&answer(provider, "2", end(provider)))).await;
        let chat = chat(provider, &format!("{}/v1/", server.uri()), settings());
        chat.complete(request(None)).await.unwrap();
    }
}

/// A provider's key goes only to the provider: an address from a file or a request does not get it, for any protocol.
#[tokio::test]
async fn untrusted_addresses_get_no_provider_key() {
    for provider in PROVIDERS {
        let server = server(provider, ok(&answer(provider, "2", end(provider)))).await;
        for owner in [KeyOwner::OpenAi, KeyOwner::Anthropic] {
            let described = HttpSettings {
                api_key: Some(ApiKey::new("sk-secret", owner)),
                address_origin: AddressOrigin::Described,
                ..settings()
            };
            let chat = chat(provider, &server.uri(), described);
            chat.complete(request(None)).await.unwrap();
        }
        for sent in server.received_requests().await.unwrap() {
            assert!(!format!("{sent:?}").contains("sk-secret"), "{provider}");
        }
    }
    // The server's refusal is explained.
    let server = server(Provider::OpenAi, ResponseTemplate::new(401)).await;
    let described = HttpSettings {
        api_key: Some(ApiKey::new("sk-secret", KeyOwner::OpenAi)),
        address_origin: AddressOrigin::Described,
        ..settings()
    };
    let error = chat(Provider::OpenAi, &server.uri(), described)
        .complete(request(None))
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("no API key was sent: OPENAI_API_KEY is only sent to api.openai.com"),
        "{error}"
    );
}

/// Neither the key nor the text follows a redirect to another server, even if only the port differs.
#[tokio::test]
async fn a_redirect_to_another_server_is_not_followed() {
    for provider in PROVIDERS {
        for status in [301, 302, 303, 307, 308] {
            let other = server(provider, ok(&answer(provider, "2", end(provider)))).await;
            let moved = ResponseTemplate::new(status).insert_header(
                "location",
                format!("{}{}", other.uri(), endpoint(provider)).as_str(),
            );
            let first = server(provider, moved).await;
            let with_key = HttpSettings {
                api_key: Some(ApiKey::new("sk-secret", KeyOwner::Anthropic)),
                ..settings()
            };
            let error = chat(provider, &first.uri(), with_key)
                .complete(request(None))
                .await
                .unwrap_err();
            assert!(
                error.to_string().contains("redirects to another server"),
                "{error}"
            );
            assert_eq!(
                other.received_requests().await.unwrap().len(),
                0,
                "{provider} {status}"
            );
            assert_eq!(
                first.received_requests().await.unwrap().len(),
                1,
                "{provider} {status}"
            );
        }
    }
}

/// A redirect on the same server is followed.
#[tokio::test]
async fn a_redirect_on_the_same_server_is_followed() {
    let server = MockServer::start().await;
    Mock::given(path("/v1/chat/completions"))
        .respond_with(ResponseTemplate::new(307).insert_header("location", "/elsewhere"))
        .mount(&server)
        .await;
    Mock::given(path("/elsewhere"))
        .and(header("authorization", "Bearer sk-secret"))
        .respond_with(ok(&answer(Provider::OpenAi, "2", "stop")))
        .mount(&server)
        .await;
    let with_key = HttpSettings {
        api_key: Some(ApiKey::new("sk-secret", KeyOwner::OpenAi)),
        ..settings()
    };
    let chat = chat(Provider::OpenAi, &server.uri(), with_key);
    chat.complete(request(None)).await.unwrap();
}

/// A key named by a target definition is not sent unencrypted over a network.
#[test]
fn keys_are_not_sent_over_plain_http() {
    let spec: Spec = "openai:m@http://models.example/v1".parse().unwrap();
    let described = HttpSettings {
        api_key: Some(ApiKey::new("sk-secret", KeyOwner::Address)),
        address_origin: AddressOrigin::Described,
        ..settings()
    };
    let error = HttpChat::new(&spec, described).unwrap_err();
    assert!(error.to_string().contains("over plain HTTP"), "{error}");
}
