//! Resolves dates that a text mentions relative to the day it was written: "last Friday", said on 8 May 2023, is 5 May
//! 2023. The resolved dates become searchable words, so that "what happened in May 2023" finds the text.

use jiff::ToSpan;
use jiff::civil::{Date, Weekday};

use crate::text::words::WordRule;

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const WEEKDAYS: [&str; 7] = [
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
];
const NUMBERS: [&str; 13] = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
];
const ORDINALS: [&str; 31] = [
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
    "eleventh",
    "twelfth",
    "thirteenth",
    "fourteenth",
    "fifteenth",
    "sixteenth",
    "seventeenth",
    "eighteenth",
    "nineteenth",
    "twentieth",
    "twentyfirst",
    "twentysecond",
    "twentythird",
    "twentyfourth",
    "twentyfifth",
    "twentysixth",
    "twentyseventh",
    "twentyeighth",
    "twentyninth",
    "thirtieth",
    "thirtyfirst",
];
/// Maximum number of resolved dates per text.
const MAX_DATES: usize = 8;
/// Number of bytes at the start of a text in which its own date may stand.
const HEAD_BYTES: usize = 80;

/// A resolved date, as precise as the text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Resolved {
    Day(Date),
    Month(i16, i8),
    Year(i16),
}

impl Resolved {
    fn words(self) -> String {
        let month = |month: i8| {
            MONTHS
                .get(usize::try_from(month - 1).unwrap_or(0))
                .copied()
                .unwrap_or("")
        };
        match self {
            Self::Day(date) => format!("{} {} {}", date.day(), month(date.month()), date.year()),
            Self::Month(year, number) => format!("{} {year}", month(number)),
            Self::Year(year) => year.to_string(),
        }
    }
}

/// Searchable words of the dates that a text mentions relative to its own date, such as "5 may 2023"; empty if its own
/// date is unknown or it mentions none. The own date is the first complete date of the title or of the start of the
/// text, or else `written`.
///
/// ```
/// use satiety::memory::resolved_dates;
/// assert_eq!(resolved_dates("8 May, 2023", "Mel: I ran a race last Saturday", None), "6 may 2023");
/// assert_eq!(resolved_dates("", "I ran a race last Saturday", None), "");
/// ```
pub fn resolved_dates(title: &str, body: &str, written: Option<Date>) -> String {
    let head_end = (0..=HEAD_BYTES.min(body.len()))
        .rev()
        .find(|at| body.is_char_boundary(*at))
        .unwrap_or(0);
    let head = body.get(..head_end).unwrap_or_default();
    let found = find_date(title).or_else(|| find_date(head));
    let Some(anchor) = found.or(written) else {
        return String::new();
    };
    let mut dates = resolve(body, anchor);
    dates.sort_unstable();
    dates.dedup();
    dates.truncate(MAX_DATES);
    let words: Vec<String> = dates.into_iter().map(Resolved::words).collect();
    words.join(" ")
}

/// First complete date in a text: `2023-05-08`, `8 May 2023`, `May 8, 2023`, `8th of May, 2023`.
pub(super) fn find_date(text: &str) -> Option<Date> {
    let folded = WordRule::Search.fold(text);
    let words = WordRule::Search.words(&folded);
    for (at, word) in words.iter().enumerate() {
        let next = |offset: usize| words.get(at + offset).copied().unwrap_or_default();
        // The time may follow: `08t13`.
        let day = next(2).split('t').next().unwrap_or_default();
        if let (Some(year), Ok(month), Ok(day)) = (year(word), next(1).parse::<i8>(), day.parse::<i8>())
            && let Ok(date) = Date::new(year, month, day)
        {
            return Some(date);
        }
        let Some(month) = month(word) else { continue };
        let before = |offset: usize| at.checked_sub(offset).and_then(|at| words.get(at)).copied();
        let day_before = before(1)
            .filter(|word| *word != "of")
            .or_else(|| before(2))
            .and_then(day_number);
        let candidates = [(day_before, year(next(1))), (day_number(next(1)), year(next(2)))];
        for (day, year) in candidates {
            if let (Some(day), Some(year)) = (day, year)
                && let Ok(date) = Date::new(year, month, day)
            {
                return Some(date);
            }
        }
    }
    None
}

fn resolve(text: &str, anchor: Date) -> Vec<Resolved> {
    let folded = WordRule::Search
        .fold(text)
        .replace("twenty-", "twenty")
        .replace("thirty-", "thirty");
    let words = WordRule::Search.words(&folded);
    let mut dates = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let next = |offset: usize| words.get(at + offset).copied().unwrap_or_default();
        let before = |offset: usize| {
            at.checked_sub(offset)
                .and_then(|at| words.get(at))
                .copied()
                .unwrap_or_default()
        };
        let day = |days: i64| anchor.checked_add(days.days()).ok().map(Resolved::Day);
        let resolved = match *word {
            "today" | "tonight" => day(0),
            "yesterday" if before(1) == "before" && before(2) == "day" => day(-2),
            "yesterday" => day(-1),
            "tomorrow" if before(1) == "after" && before(2) == "day" => day(2),
            "tomorrow" => day(1),
            "last" if next(1) == "night" => day(-1),
            "last" | "next" | "this" => relative(word, next(1), anchor),
            "ago" => count_ago(before(2), before(1), anchor),
            other => match (month(other), weekday(other)) {
                (Some(month), _) => in_month(&words, at, month, anchor),
                (_, Some(weekday)) if before(1) == "on" => past_weekday(weekday, anchor).map(Resolved::Day),
                _ => None,
            },
        };
        dates.extend(resolved);
    }
    dates
}

/// "last Friday", "next week", "this month".
fn relative(which: &str, unit: &str, anchor: Date) -> Option<Resolved> {
    let sign = match which {
        "last" => -1,
        "next" => 1,
        _ => 0,
    };
    match unit {
        "week" => anchor.checked_add((7 * sign).days()).ok().map(Resolved::Day),
        "weekend" => {
            let saturday = past_weekday(Weekday::Saturday, anchor)?;
            let weeks = if which == "next" || which == "this" { 7 } else { 0 };
            saturday.checked_add(weeks.days()).ok().map(Resolved::Day)
        }
        "month" => {
            let date = anchor.first_of_month().checked_add(sign.months()).ok()?;
            Some(Resolved::Month(date.year(), date.month()))
        }
        "year" => Some(Resolved::Year(anchor.year() + i16::try_from(sign).ok()?)),
        "summer" | "spring" | "autumn" | "fall" | "winter" => {
            Some(Resolved::Year(anchor.year() + i16::try_from(sign).ok()?))
        }
        other => {
            let weekday = weekday(other)?;
            let past = past_weekday(weekday, anchor)?;
            let days = if sign < 0 { 0 } else { 7 };
            past.checked_add(days.days()).ok().map(Resolved::Day)
        }
    }
}

/// "three weeks ago".
fn count_ago(count: &str, unit: &str, anchor: Date) -> Option<Resolved> {
    let number = match count {
        "a" | "an" => 1,
        other => other
            .parse::<i64>()
            .ok()
            .or_else(|| i64::try_from(NUMBERS.iter().position(|word| *word == other)?).ok())?,
    };
    let number = number.clamp(0, 1000);
    let date = match unit.trim_end_matches('s') {
        "day" => return anchor.checked_add((-number).days()).ok().map(Resolved::Day),
        "week" => return anchor.checked_add((-7 * number).days()).ok().map(Resolved::Day),
        "month" => anchor.first_of_month().checked_add((-number).months()).ok()?,
        "year" => {
            return i16::try_from(number)
                .ok()
                .map(|number| Resolved::Year(anchor.year() - number));
        }
        _ => return None,
    };
    Some(Resolved::Month(date.year(), date.month()))
}

/// "the ninth of July" or "in July", of the year that is nearest to the own date of the text. A month with its year is
/// searchable as it stands.
fn in_month(words: &[&str], at: usize, month: i8, anchor: Date) -> Option<Resolved> {
    let word = |at: Option<usize>| at.and_then(|at| words.get(at)).copied().unwrap_or_default();
    if year(word(Some(at + 1))).is_some() || year(word(Some(at + 2))).is_some() {
        return None;
    }
    let before = word(at.checked_sub(1));
    let day = if before == "of" {
        day_number(word(at.checked_sub(2)))
    } else {
        day_number(before)
    };
    let day = day.or_else(|| day_number(word(Some(at + 1))));
    // "may" and "march" are also verbs.
    if day.is_none()
        && !matches!(
            before,
            "in" | "since" | "until" | "by" | "early" | "late" | "mid" | "last" | "next"
        )
    {
        return None;
    }
    let distance = i32::from(month) - i32::from(anchor.month());
    let year = anchor.year() + i16::from(distance < -6) - i16::from(distance > 6);
    match day {
        Some(day) => Date::new(year, month, day).ok().map(Resolved::Day),
        None => Some(Resolved::Month(year, month)),
    }
}

fn past_weekday(weekday: Weekday, anchor: Date) -> Option<Date> {
    anchor.nth_weekday(-1, weekday).ok()
}

fn month(word: &str) -> Option<i8> {
    let found = |name: &str| name == word || (word.len() == 3 && name.starts_with(word));
    let at = MONTHS.iter().position(|name| found(name))?;
    i8::try_from(at + 1).ok()
}

fn weekday(word: &str) -> Option<Weekday> {
    let at = WEEKDAYS.iter().position(|name| *name == word)?;
    Weekday::from_monday_one_offset(i8::try_from(at + 1).ok()?).ok()
}

fn day_number(word: &str) -> Option<i8> {
    let digits = ["st", "nd", "rd", "th"]
        .iter()
        .find_map(|ending| word.strip_suffix(ending))
        .unwrap_or(word);
    let named = || i8::try_from(ORDINALS.iter().position(|name| *name == word)? + 1).ok();
    let number = digits.parse::<i8>().ok().or_else(named)?;
    (1..=31).contains(&number).then_some(number)
}

fn year(word: &str) -> Option<i16> {
    word.parse::<i16>()
        .ok()
        .filter(|year| word.len() == 4 && (1900..2200).contains(year))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 8 May 2023 was a Monday.
    #[test]
    fn expressions_are_resolved_by_the_day_they_were_said() {
        for (text, expected) in [
            ("I went yesterday", "7 may 2023"),
            ("the day before yesterday it rained", "6 may 2023"),
            ("tomorrow we leave", "9 may 2023"),
            ("we met last Friday", "5 may 2023"),
            ("we met last Monday", "1 may 2023"),
            ("next Tuesday then", "9 may 2023"),
            ("see you on Sunday", "7 may 2023"),
            ("last week", "1 may 2023"),
            ("last weekend", "6 may 2023"),
            ("last month", "april 2023"),
            ("last year", "2022"),
            ("three weeks ago", "17 april 2023"),
            ("2 months ago", "march 2023"),
            ("ten years ago", "2013"),
            ("on the ninth of July", "9 july 2023"),
            ("on the twenty-first of December", "21 december 2022"),
            ("June 3rd is free", "3 june 2023"),
            ("in August we travel", "august 2023"),
            ("you may march on", ""),
            ("on 3 June 2021", ""),
            ("nothing here", ""),
        ] {
            assert_eq!(resolved_dates("8 May, 2023", text, None), expected, "{text}");
        }
    }

    #[test]
    fn complete_dates_are_found_in_usual_formats() {
        for (text, expected) in [
            ("1:56 pm on 8 May, 2023", Some((2023, 5, 8))),
            ("2023-05-08T13:56", Some((2023, 5, 8))),
            ("May 8th, 2023", Some((2023, 5, 8))),
            ("the 8th of May 2023", Some((2023, 5, 8))),
            ("31 February 2023", None),
            ("8 May", None),
            ("version 2023", None),
        ] {
            let expected = expected.map(|(year, month, day)| Date::new(year, month, day).unwrap());
            assert_eq!(find_date(text), expected, "{text}");
        }
        let written = Date::new(2024, 2, 29).unwrap();
        assert_eq!(resolved_dates("", "a year ago", Some(written)), "2023");
        assert_eq!(
            resolved_dates("", "[2023-05-08] Mel: yesterday", Some(written)),
            "7 may 2023"
        );
    }

    proptest! {
        #[test]
        fn no_text_panics(title in "\\PC{0,40}", body in "([a-z0-9]{1,8}|ago|last|may|week|march|9999|days|of)( ([a-z0-9]{1,8}|ago|last|may|week|march|9999|days|of)){0,20}") {
            let _ = resolved_dates(&title, &body, Some(Date::MIN));
            let _ = resolved_dates(&title, &body, Some(Date::MAX));
            let _ = resolved_dates("8 May 2023", &body, None);
        }
    }
}
