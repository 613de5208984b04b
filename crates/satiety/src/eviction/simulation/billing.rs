//! Bill of a replay: what a provider with a prompt cache charges for the requests of a session. Every turn is a
//! request with the whole context. The part that equals the beginning of the last request is read from the
//! cache, the rest is written. Reading a dropped item again takes a call and one more request.
//!
//! Requests follow each other before the cache expires, and the tokens that the agent writes are not billed:
//! they are the same under every policy.

use super::super::price::CachePrices;

/// Running bill, in tokens at the price of an uncached input token.
#[derive(Debug)]
pub(super) struct Bill {
    prices: CachePrices,
    call_tokens: f64,
    /// Places and tokens of the last request, in order.
    last: Vec<(u64, u64)>,
    pub(super) total: f64,
    pub(super) rewritten_tokens: u64,
}

impl Bill {
    pub(super) fn new(prices: CachePrices, call_tokens: f64) -> Self {
        Self {
            prices,
            call_tokens,
            last: Vec::new(),
            total: 0.0,
            rewritten_tokens: 0,
        }
    }

    /// Charges a request with these items (place, tokens), in the order of the context.
    pub(super) fn request(&mut self, items: Vec<(u64, u64)>) {
        let common = self.last.iter().zip(&items).take_while(|(a, b)| a == b).count();
        let tokens = |items: &[(u64, u64)]| items.iter().map(|(_, tokens)| tokens).sum::<u64>();
        let (read, written) = (tokens(&items[..common]), tokens(&items[common..]));
        let sent = self.last.last().map_or(0, |(place, _)| place + 1);
        let again = items[common..].iter().filter(|(place, _)| *place < sent);
        self.rewritten_tokens += again.map(|(_, tokens)| tokens).sum::<u64>();
        self.total += read as f64 * self.prices.read + written as f64 * self.prices.write;
        self.last = items;
    }

    /// Charges the call and the request that read one item again.
    pub(super) fn reread(&mut self, context_tokens: u64) {
        self.total += context_tokens as f64 * self.prices.read + self.call_tokens * self.prices.output;
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::price::PriceList;
    use super::*;

    #[test]
    fn the_common_beginning_is_read_and_the_rest_written() {
        let list = PriceList::built_in();
        let mut bill = Bill::new(list.find("anthropic").unwrap().clone(), 60.0);
        bill.request(vec![(0, 100), (1, 200)]);
        assert!((bill.total - 300.0 * 1.25).abs() < 1e-9);
        bill.request(vec![(0, 100), (1, 200), (2, 50)]);
        assert!((bill.total - 300.0 * 1.35 - 50.0 * 1.25).abs() < 1e-9);
        let before = bill.total;
        // Item 0 was dropped: everything behind it is written again.
        bill.request(vec![(1, 200), (2, 50)]);
        assert!((bill.total - before - 250.0 * 1.25).abs() < 1e-9);
        assert_eq!(bill.rewritten_tokens, 250);
        bill.reread(1000);
        assert!((bill.total - before - 250.0 * 1.25 - 100.0 - 300.0).abs() < 1e-9);
    }
}
