//! Renders findings as workflow commands of GitHub Actions, which appear as annotations at their lines.

use crate::finding::{Finding, Level};

/// Renders one command per line. File names and messages are escaped, so that no text can start a command of
/// its own.
pub fn render(findings: &[Finding]) -> String {
    findings.iter().map(command).collect()
}

fn command(finding: &Finding) -> String {
    let kind = match finding.level {
        Level::Error => "error",
        Level::Warning => "warning",
    };
    format!(
        "::{kind} file={},line={},title={}::{}\n",
        escape_property(&finding.file),
        finding.line,
        escape_property(&format!("satiety {}", finding.rule.id())),
        escape_message(&finding.text())
    )
}

fn escape_message(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn escape_property(text: &str) -> String {
    escape_message(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Rule;

    #[test]
    fn hostile_text_stays_in_its_command() {
        let finding = Finding {
            rule: Rule::WeakerCase,
            level: Level::Error,
            place: "suites.s.c\n::set-output name=x::y".into(),
            message: "100% gone\r\n::error::fake".into(),
            file: "a,line=9::x\n::warning::b.yaml".into(),
            line: 3,
        };
        let text = render(&[finding]);
        assert_eq!(text.lines().count(), 1, "{text}");
        assert_eq!(
            text.split("::").nth(1),
            Some("error file=a%2Cline=9%3A%3Ax%0A%3A%3Awarning%3A%3Ab.yaml,line=3,title=satiety weaker-case")
        );
        assert!(
            text.contains("100%25 gone%0D%0A::error::fake. Restore it"),
            "{text}"
        );
    }
}
