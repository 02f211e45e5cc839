//! What the page calls. Answers cross as JSON, because numbers survive it and everybody can read it; errors as one line.

use wasm_bindgen::prelude::wasm_bindgen;

/// [`crate::Study`], for scripts.
#[wasm_bindgen]
pub struct Study(crate::Study);

#[wasm_bindgen]
impl Study {
    /// Of `KEY=VALUE` lines. Throws the line that names what is wrong.
    #[wasm_bindgen(constructor)]
    pub fn new(settings: &str) -> Result<Self, String> {
        crate::Study::new(settings)
            .map(Self)
            .map_err(|e| e.to_string())
    }

    /// Simulates the next replication, and returns whether there are more.
    pub fn step(&mut self) -> Result<bool, String> {
        self.0.step().map_err(|e| e.to_string())
    }

    /// The scenario as a file.
    pub fn toml(&self) -> String {
        self.0.toml().to_owned()
    }

    /// [`crate::Bound`] as JSON.
    pub fn bound(&self) -> Result<String, String> {
        serde_json::to_string(&self.0.bound()).map_err(|e| e.to_string())
    }

    /// [`crate::Answer`] as JSON.
    pub fn answer(&self) -> Result<String, String> {
        serde_json::to_string(&self.0.answer()).map_err(|e| e.to_string())
    }

    /// What `rxlane-lab sim run --json` prints.
    pub fn json(&self) -> Result<String, String> {
        self.0.json().map_err(|e| e.to_string())
    }
}
