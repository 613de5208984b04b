use serde_json::json;

use super::*;
use crate::trajectory::{Call, PlanItem, Reply, Step};

fn call(tool: &str, arguments: serde_json::Value, result: &str) -> Step {
    Step {
        calls: vec![Call::new(tool, arguments).with_result(result)],
        ..Step::default()
    }
}

fn bash(command: &str, result: &str) -> Step {
    call("bash", json!({ "command": command }), result)
}

/// The signal after each step.
fn signals(steps: impl IntoIterator<Item = Step>) -> Vec<ProgressSignal> {
    let mut progress = Progress::default();
    steps
        .into_iter()
        .map(|step| progress.observe(&step).signal)
        .collect()
}

fn first_stop(signals: &[ProgressSignal]) -> Option<usize> {
    signals
        .iter()
        .position(|signal| signal.stops())
        .map(|index| index + 1)
}

#[test]
fn the_built_in_profile_is_valid_and_can_be_changed_in_part() {
    let profile = ProgressProfile::parse("[decision]\nstop = 5.0\n").unwrap();
    assert!((profile.decision.stop - 5.0).abs() < 1e-12);
    assert!(ProgressProfile::parse("[decision]\nstop = 0.1\n").is_err());
    assert!(ProgressProfile::parse("[decision]\nstopp = 1\n").is_err());
}

#[test]
fn the_same_call_with_the_same_error_is_escalated() {
    let steps = (0..12).map(|_| bash("pytest tests/x.py", "E   ImportError: no module named x"));
    let signals = signals(steps);
    let stop = first_stop(&signals).unwrap();
    assert!(stop <= 4, "{signals:?}");
    assert_eq!(signals[stop - 1], ProgressSignal::Escalate);
    assert!(signals[..stop].contains(&ProgressSignal::Nudge));
}

#[test]
fn the_same_call_with_the_same_result_is_stopped() {
    let signals = signals((0..12).map(|_| bash("ls", "a\nb\nc\nd")));
    let stop = first_stop(&signals).unwrap();
    assert!(stop <= 4);
    assert_eq!(signals[stop - 1], ProgressSignal::Stop);
    assert!(!signals.contains(&ProgressSignal::Ship));
}

#[test]
fn changing_arguments_with_the_same_result_are_stagnation() {
    for (tool, result) in [
        ("search", "No results found for this query."),
        ("search", "No results found for 'topic NUMBER'."),
        ("get_document", "[]"),
        ("try_option", "The option has no effect on the total of 12 units."),
        ("bash", "cat: topic: No such file or directory"),
    ] {
        let steps = (0..20).map(|number| {
            call(
                tool,
                json!({"q": format!("topic {number}")}),
                &result.replace("NUMBER", &number.to_string()),
            )
        });
        let signals = signals(steps);
        assert!(
            first_stop(&signals).is_some_and(|step| step <= 5),
            "{tool}: {signals:?}"
        );
    }
}

#[test]
fn many_actions_that_are_acknowledged_alike_are_work() {
    for result in ["ok", "Item processed successfully", "{\"status\": \"ok\"}"] {
        let steps = (0..20).map(|number| call("process", json!({"item": format!("order {number}")}), result));
        let signals = signals(steps);
        assert!(
            signals.iter().all(|signal| *signal == ProgressSignal::Continue),
            "{result}: {signals:?}"
        );
    }
}

#[test]
fn reports_that_differ_in_their_numbers_are_not_repeats() {
    let steps = (0..12).map(|number| Step {
        text: format!(
            "Iteration {number}: the loss on the validation set is now 0.{number}3 after another epoch of training"
        ),
        ..Step::default()
    });
    let signals = signals(steps);
    assert!(
        signals.iter().all(|signal| *signal == ProgressSignal::Continue),
        "{signals:?}"
    );
}

#[test]
fn polling_with_a_long_report_is_progress() {
    let report = |number: usize| {
        let report = format!(
            "Job 7 on runner linux-x64 is running: {number} of 12 parts are ready, no errors so far."
        );
        call("job_status", json!({"job": 7}), &report)
    };
    assert_eq!(first_stop(&signals((0..12).map(report))), None);
    assert!(first_stop(&signals((0..12).map(|number| report(number / 6)))).is_some());
}

#[test]
fn two_alternating_calls_are_a_cycle() {
    let steps = (0..20).map(|number| {
        if number % 2 == 0 {
            bash("cat a.py", "def a(): pass")
        } else {
            bash("cat b.py", "def b(): return a()")
        }
    });
    let mut progress = Progress::default();
    let verdicts: Vec<_> = steps.map(|step| progress.observe(&step)).collect();
    assert!(verdicts.iter().any(|verdict| {
        verdict
            .evidence
            .iter()
            .any(|evidence| evidence.kind == EvidenceKind::Cycle && evidence.period == Some(2))
    }));
    assert!(
        verdicts
            .iter()
            .position(|verdict| verdict.signal.stops())
            .unwrap()
            < 8
    );
}

#[test]
fn paraphrased_calls_are_recognized_by_meaning() {
    let queries = [
        "effects of climate change",
        "climate change effects overview",
        "what climate change causes",
        "impact of a changing climate",
    ];
    let steps: Vec<Step> = (0..12)
        .map(|number| {
            call(
                "search",
                json!({"q": queries[number % 4]}),
                "1. A report about warming. 2. A page about sea levels.",
            )
        })
        .collect();
    let mut progress = Progress::default();
    // A sentence model would give nearly equal vectors.
    let signals: Vec<_> = steps
        .iter()
        .map(|step| progress.observe_with(step, Some(&[0.6, 0.8])).signal)
        .collect();
    assert!(first_stop(&signals).unwrap() <= 6, "{signals:?}");
    assert!(texts_to_embed(&steps[0]).is_some());
}

#[test]
fn polling_with_changing_results_is_progress() {
    let steps = (0..30).map(|number| {
        bash(
            "kubectl get pods",
            &format!("pod-a Running {number} restarts, {number} of 30 ready"),
        )
    });
    assert!(
        signals(steps)
            .iter()
            .all(|signal| *signal == ProgressSignal::Continue)
    );
}

#[test]
fn waiting_is_given_more_time() {
    let steps = (0..6).map(|_| bash("sleep 60 && gh run view 1", "status: in_progress"));
    assert_eq!(first_stop(&signals(steps)), None);
}

#[test]
fn a_productive_session_is_left_alone() {
    let mut steps = Vec::new();
    for number in 0..20 {
        steps.push(bash(
            &format!("cat src/{number}.py"),
            &format!("content of file {number}"),
        ));
        steps.push(call(
            "str_replace",
            json!({"path": format!("src/{number}.py"), "old_str": format!("old {number}"), "new_str": format!("new {number}")}),
            "The file has been edited.",
        ));
        steps.push(bash(
            "pytest",
            &format!("{} failed, {number} passed", 20 - number),
        ));
    }
    let signals = signals(steps);
    assert!(
        signals.iter().all(|signal| *signal == ProgressSignal::Continue),
        "{signals:?}"
    );
}

#[test]
fn edits_that_undo_each_other_are_found() {
    let edit = |old: &str, new: &str| {
        call(
            "Edit",
            json!({"file_path": "a.py", "old_string": old, "new_string": new}),
            "ok, file updated",
        )
    };
    let mut progress = Progress::default();
    progress.observe(&edit("x = 1", "x = 2"));
    let verdict = progress.observe(&edit("x = 2", "x = 1"));
    assert!(
        verdict
            .evidence
            .iter()
            .any(|evidence| evidence.kind == EvidenceKind::Undo && evidence.earlier_step == Some(1))
    );
}

#[test]
fn the_same_question_again_is_escalated() {
    let steps = (0..8).map(|_| Step {
        text: "Could you tell me which database you would like to use?".into(),
        replies: vec![Reply {
            from: None,
            text: "I do not know.".into(),
        }],
        ..Step::default()
    });
    let signals = signals(steps);
    assert_eq!(
        signals[first_stop(&signals).unwrap() - 1],
        ProgressSignal::Escalate
    );
}

#[test]
fn shipping_needs_an_agent_that_ends_with_nothing_open() {
    let finish = Step {
        finish: true,
        ..call("submit", json!({}), "")
    };
    assert_eq!(
        signals([bash("pytest", "3 passed"), finish.clone()])[1],
        ProgressSignal::Ship
    );
    assert_eq!(
        signals([bash("pytest", "1 failed, 2 passed"), finish.clone()])[1],
        ProgressSignal::Nudge
    );
    let plan = Step {
        plan: Some(vec![PlanItem {
            text: "write the tests".into(),
            done: false,
        }]),
        ..call("TodoWrite", json!({}), "ok")
    };
    let mut progress = Progress::default();
    progress.observe(&plan);
    let verdict = progress.observe(&finish);
    assert_eq!(verdict.signal, ProgressSignal::Nudge);
    assert!(verdict.nudge.unwrap().contains("write the tests"));
    // Repetition never ships.
    let looped = (0..8).map(|_| bash("make", "error: no rule")).chain([finish]);
    assert_eq!(signals(looped).last(), Some(&ProgressSignal::Escalate));
}

#[test]
fn a_recovered_agent_is_trusted_again() {
    let stuck = (0..6).map(|_| bash("make", "error: no rule"));
    let working = (0..12).map(|number| bash(&format!("cat {number}.c"), &format!("int f{number}();")));
    assert_eq!(
        signals(stuck.chain(working)).last(),
        Some(&ProgressSignal::Continue)
    );
}

#[test]
fn the_nudge_names_the_call_and_the_error() {
    let mut progress = Progress::default();
    let nudge = (0..5)
        .find_map(|_| {
            let verdict = progress.observe(&bash(
                "pytest tests/x.py",
                "collecting\nE   ImportError: no module named x",
            ));
            verdict.nudge
        })
        .unwrap();
    assert!(
        nudge.contains("pytest tests/x.py") && nudge.contains("ImportError"),
        "{nudge}"
    );
}

#[test]
fn expected_waste_grows_with_the_loop_and_has_the_units_of_the_log() {
    let mut progress = Progress::default();
    let mut last = 0.0;
    for number in 0..8 {
        let mut step = bash("ls", "a b c d");
        step.usage.tokens = Some(1000);
        let verdict = progress.observe(&step);
        if number > 1 {
            assert!(verdict.expected_waste.steps > last);
            assert!(verdict.expected_waste.tokens.unwrap() > 0.0);
        }
        last = verdict.expected_waste.steps;
    }
}

#[test]
fn a_restored_judge_goes_on_as_if_it_had_never_stopped() {
    let steps: Vec<Step> = (0..60)
        .map(|number| match number % 7 {
            0 => bash("pytest tests/x.py", "E   ImportError: no module named x"),
            1 => call(
                "str_replace",
                json!({"old_str": "a", "new_str": "b", "path": "x.py"}),
                "ok",
            ),
            2 => call(
                "str_replace",
                json!({"old_str": "b", "new_str": "a", "path": "x.py"}),
                "ok",
            ),
            3 => call(
                "TodoWrite",
                json!({"todos": [{"content": "fix", "status": "pending"}]}),
                "ok",
            ),
            _ => bash(&format!("cat file{}.py", number % 5), "some content\nof a file"),
        })
        .collect();
    let mut whole = Progress::default();
    let mut restored = Progress::default();
    for step in &steps {
        assert_eq!(whole.observe(step), restored.observe(step));
        restored = Progress::restore(&restored.snapshot(), ProgressProfile::built_in()).unwrap();
    }
    assert_eq!(whole.open_ends(), restored.open_ends());
    assert_eq!(whole.tools(), restored.tools());
    assert_eq!(whole.wasted_steps(), restored.wasted_steps());
    assert_eq!(whole.snapshot(), restored.snapshot());
}

#[test]
fn a_damaged_snapshot_is_refused() {
    let mut progress = Progress::default();
    for number in 0..5 {
        progress.observe(&bash(&format!("cat {number}"), &format!("content {number}")));
    }
    let snapshot = progress.snapshot();
    let restore = |text: &str| Progress::restore(text, ProgressProfile::built_in());
    assert!(restore(&snapshot).is_some());
    for (from, to) in [
        ("\"version\":1", "\"version\":2"),
        ("\"steps\":5", "\"steps\":3"),
        ("\"seen\":\"", "\"seen\":\"A"),
        ("\"step\":2", "\"step\":9"),
        ("\"level\":0.0", "\"level\":null"),
    ] {
        let damaged = snapshot.replacen(from, to, 1);
        assert_ne!(damaged, snapshot, "{from}");
        assert!(restore(&damaged).is_none(), "{from}");
    }
    for end in 0..snapshot.len().min(400) {
        assert!(restore(&snapshot[..end]).is_none());
    }
}

#[test]
fn a_new_series_has_to_add_up_again() {
    let mut progress = Progress::default();
    let mut stops = Vec::new();
    for number in 1..=12 {
        if progress.observe(&bash("ls", "a\nb\nc\nd")).signal.stops() {
            stops.push(number);
            progress.begin_series();
        }
    }
    assert!(stops.len() >= 2);
    assert!(stops.windows(2).all(|pair| pair[1] - pair[0] >= 3), "{stops:?}");
}
