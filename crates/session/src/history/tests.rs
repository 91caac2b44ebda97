use breme_base::Random;

use super::*;

fn operation(action: Action, invoked: u64, returned: u64, outcome: OperationOutcome) -> Operation {
    let (invoked, returned) = (Instant::from_nanos(invoked), Instant::from_nanos(returned));
    Operation { session: 1, id: 1, action, invoked, returned, outcome }
}

fn append(token: u64, invoked: u64, returned: u64, list: &[u64]) -> Operation {
    operation(Action::Append(token), invoked, returned, OperationOutcome::Done(list.to_vec()))
}

fn read(invoked: u64, returned: u64, list: &[u64]) -> Operation {
    operation(Action::Read, invoked, returned, OperationOutcome::Done(list.to_vec()))
}

fn problems(history: &[Operation]) -> Vec<Problem> {
    let mut problems: Vec<_> = check(history).problems.iter().map(|anomaly| anomaly.problem).collect();
    problems.sort_unstable();
    problems.dedup();
    problems
}

#[test]
fn each_problem_is_reported_by_its_name() {
    let first = append(1, 0, 9, &[1]);
    let cases: &[(&[Operation], Problem)] = &[
        (&[first.clone(), append(2, 10, 19, &[2])], Problem::Lost),
        (&[first.clone(), read(10, 19, &[])], Problem::Lost),
        (&[first.clone(), read(10, 19, &[]), read(20, 29, &[1])], Problem::Stale),
        (&[append(1, 0, 9, &[1, 1])], Problem::Duplicate),
        (&[Operation { session: 2, ..append(5, 0, 9, &[5]) }, read(10, 19, &[5])], Problem::Foreign),
        (&[read(0, 9, &[6])], Problem::Invented),
        (&[first.clone(), append(2, 0, 9, &[1])], Problem::OwnMissing),
        (&[operation(Action::Append(3), 0, 9, OperationOutcome::Failed), read(10, 19, &[3])], Problem::FailedAppears),
        (&[read(0, 3, &[4]), operation(Action::Append(4), 5, 9, OperationOutcome::Unknown)], Problem::FromTheFuture),
        (
            &[first.clone(), operation(Action::LogOut, 10, 19, OperationOutcome::Done(vec![])), read(20, 29, &[1])],
            Problem::Resurrected,
        ),
        (&[first.clone(), operation(Action::Read, 10, 19, OperationOutcome::Absent)], Problem::Vanished),
        (
            &[first, operation(Action::Rotate { to: 2 }, 10, 19, OperationOutcome::Done(vec![1])), read(20, 29, &[1])],
            Problem::OldId,
        ),
    ];
    for (history, problem) in cases {
        assert!(problems(history).contains(problem), "{problem:?}: {}", check(history));
    }
    let fork = [
        operation(Action::Append(1), 0, 9, OperationOutcome::Unknown),
        operation(Action::Append(2), 0, 9, OperationOutcome::Unknown),
    ];
    assert_eq!(problems(&[&fork[..], &[read(10, 19, &[1, 2]), read(10, 19, &[2])]].concat()), [Problem::Fork]);
}

#[test]
fn valid_histories_pass() {
    let histories: &[&[Operation]] = &[
        &[],
        &[append(1, 0, 9, &[2, 1]), append(2, 0, 9, &[2]), read(5, 9, &[])],
        &[operation(Action::Append(1), 0, 9, OperationOutcome::Unknown), read(10, 19, &[]), read(30, 39, &[1])],
        &[
            operation(Action::LogOut, 0, 9, OperationOutcome::Unknown),
            operation(Action::Read, 5, 7, OperationOutcome::Absent),
        ],
        &[
            append(1, 0, 9, &[1]),
            operation(Action::Rotate { to: 2 }, 10, 19, OperationOutcome::Done(vec![1])),
            Operation { id: 2, ..append(2, 20, 29, &[1, 2]) },
            operation(Action::Read, 20, 29, OperationOutcome::Absent),
        ],
    ];
    for history in histories {
        assert_eq!(problems(history), [], "{}", check(history));
    }
}

/// Whether some order of the operations explains the history; by brute force.
fn is_linearizable(history: &[Operation]) -> bool {
    fn extend(history: &[Operation], done: &mut Vec<bool>, state: &mut Vec<u64>) -> bool {
        let is_open =
            |place: usize| matches!(history[place].outcome, OperationOutcome::Unknown | OperationOutcome::Failed);
        if (0..history.len()).all(|place| done[place] || is_open(place)) {
            return true;
        }
        (0..history.len()).any(|place| {
            let operation = &history[place];
            // An omitted operation must not have returned before this one was invoked.
            let waits = |other: usize| !done[other] && !is_open(other) && history[other].returned < operation.invoked;
            if done[place] || operation.outcome == OperationOutcome::Failed || (0..history.len()).any(waits) {
                return false;
            }
            let length = state.len();
            if let Action::Append(token) = operation.action {
                state.push(token);
            }
            done[place] = true;
            let fits = match &operation.outcome {
                OperationOutcome::Done(list) => list == state,
                _ => true,
            };
            let is_explained = fits && extend(history, done, state);
            done[place] = false;
            state.truncate(length);
            is_explained
        })
    }
    extend(history, &mut vec![false; history.len()], &mut Vec::new())
}

/// Draws a small history, valid at first, and then changes something in it.
fn draw(random: &mut Random) -> Vec<Operation> {
    let count = random.between(1, 6);
    let mut state = Vec::new();
    let mut now = 0;
    let mut history: Vec<_> = (0..count)
        .map(|token| {
            now += random.between(1, 6);
            let is_append = random.chance(0.6);
            if is_append {
                state.push(token);
            }
            let action = if is_append { Action::Append(token) } else { Action::Read };
            let invoked = now - random.between(0, 8.min(now));
            let outcome =
                if random.chance(0.15) { OperationOutcome::Unknown } else { OperationOutcome::Done(state.clone()) };
            operation(action, invoked, now + random.between(0, 8), outcome)
        })
        .collect();
    if random.chance(0.6) {
        let place = random.below(count) as usize;
        match (random.below(4), &mut history[place]) {
            (0, Operation { outcome: OperationOutcome::Done(list), .. }) => {
                list.pop();
            }
            (1, Operation { outcome: OperationOutcome::Done(list), .. }) if list.len() > 1 => list.swap(0, 1),
            (2, operation) => operation.outcome = OperationOutcome::Failed,
            (_, operation) => {
                let moved = random.between(0, 40);
                (operation.invoked, operation.returned) = (Instant::from_nanos(moved), Instant::from_nanos(moved + 2));
            }
        }
    }
    history
}

#[test]
fn it_agrees_with_a_search_through_all_orders() {
    let mut random = Random::new(11);
    let mut good = 0;
    let cases = 30_000;
    for case in 0..cases {
        let history = draw(&mut random);
        let is_good = is_linearizable(&history);
        assert_eq!(check(&history).problems.is_empty(), is_good, "case {case}: {history:#?}\n{}", check(&history));
        good += usize::from(is_good);
    }
    assert!((cases / 4..cases * 3 / 4).contains(&good), "{good} of {cases} were good: the cases show little");
}
