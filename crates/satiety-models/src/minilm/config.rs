//! Configuration of a BERT-like sentence encoder, read from `config.json` or the header of a weights file.
//! Rejects configurations that the forward pass would compute incorrectly.
use serde::Deserialize;

/// Fields of Hugging Face's `config.json` that determine the computation, with their original names.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Config {
    pub(crate) model_type: String,
    pub(crate) hidden_act: String,
    pub(crate) hidden_size: usize,
    pub(crate) intermediate_size: usize,
    pub(crate) layer_norm_eps: f32,
    pub(crate) max_position_embeddings: usize,
    pub(crate) num_attention_heads: usize,
    pub(crate) num_hidden_layers: usize,
    pub(crate) vocab_size: usize,
    #[serde(default = "absolute")]
    pub(crate) position_embedding_type: String,
}

fn absolute() -> String {
    "absolute".to_owned()
}

impl Config {
    pub(crate) fn parse(json: &[u8]) -> Result<Self, String> {
        let config: Self = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        config.check()?;
        Ok(config)
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        let words = [
            ("model_type", &self.model_type, "bert"),
            ("hidden_act", &self.hidden_act, "gelu"),
            (
                "position_embedding_type",
                &self.position_embedding_type,
                "absolute",
            ),
        ];
        for (field, found, wanted) in words {
            if found != wanted {
                return Err(format!("{field} is `{found}`; only `{wanted}` is supported"));
            }
        }
        let sizes = [
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("max_position_embeddings", self.max_position_embeddings),
            ("num_attention_heads", self.num_attention_heads),
            ("num_hidden_layers", self.num_hidden_layers),
            ("vocab_size", self.vocab_size),
        ];
        for (field, size) in sizes {
            // The upper bound prevents overflow in products of sizes.
            if size == 0 || size > 1 << 20 {
                return Err(format!("{field} is {size}"));
            }
        }
        if !self.hidden_size.is_multiple_of(self.num_attention_heads) {
            return Err(format!(
                "hidden_size {} is not divisible by {} attention heads",
                self.hidden_size, self.num_attention_heads
            ));
        }
        Ok(())
    }
}

/// How token vectors are combined into one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pooling {
    /// Mean of all tokens, including start and end.
    Mean,
    /// Vector of the start token.
    Cls,
}

impl Pooling {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Cls => "cls",
        }
    }

    /// Reads sentence-transformers' `1_Pooling/config.json`.
    pub(crate) fn parse(json: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Modes {
            #[serde(default)]
            pooling_mode_cls_token: bool,
            #[serde(default)]
            pooling_mode_mean_tokens: bool,
        }
        let modes: Modes = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        match (modes.pooling_mode_mean_tokens, modes.pooling_mode_cls_token) {
            (true, false) => Ok(Self::Mean),
            (false, true) => Ok(Self::Cls),
            _ => Err("expected either mean or cls pooling".to_owned()),
        }
    }
}
