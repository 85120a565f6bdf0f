//! Which connection goes when there is no place for another one.
//!
//! Never here: a connection; what is counted.

use std::cmp::Reverse;
use std::time::Instant;

use super::census::{Client, Full};
use crate::base::table::Table;

/// What is known of the client of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It has sent no request.
    Silent,
    /// A request was answered: it speaks HTTP. Anybody can do that.
    Speaks,
    /// It has shown by a certificate, token or cookie that it has rights.
    Known,
}

/// A connection without a request under way.
#[derive(Debug, Clone)]
pub struct Place {
    /// The client by its address.
    pub at: Client,
    pub standing: Standing,
    /// When the wait began.
    pub since: Instant,
}

/// The index of the connection that goes for a new one of the client at this address. Strangers go before those that have
/// rights, and of them those of the address with most of them: a few addresses without rights keep nobody out. Of several
/// addresses with as many, the oldest goes, whatever it has sent: a handshake needs its time.
#[must_use]
pub fn gives_way(places: &[Place], full: Full, at: &Client) -> Option<usize> {
    let has_strangers = places.iter().any(|place| place.standing != Standing::Known);
    let may_go = |place: &Place| !has_strangers || place.standing != Standing::Known;
    let mut counts = Table::<Client, usize>::new();
    for place in places.iter().filter(|place| may_go(place)) {
        let count = counts.get_or_default(place.at.clone());
        *count = count.saturating_add(1);
    }
    let all = places.iter().enumerate();
    let goes = match full {
        Full::Client => {
            all.filter(|(_, place)| place.at == *at).min_by_key(|(_, place)| (place.standing, place.since))
        }
        Full::All => all
            .filter(|(_, place)| may_go(place))
            .min_by_key(|(_, place)| (Reverse(counts.get(&place.at)), place.since)),
    };
    goes.map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(last: u8) -> Client {
        Client::at([192, 0, 2, last].into())
    }

    /// Connections by address and standing, the oldest first.
    fn places(all: &[(u8, Standing)]) -> Vec<Place> {
        let begin = Instant::now();
        let place = |(age, &(last, standing)): (u64, &(u8, Standing))| Place {
            at: at(last),
            standing,
            since: begin + Duration::from_secs(age),
        };
        (0..).zip(all).map(place).collect()
    }

    #[test]
    fn strangers_of_the_address_with_most_go_first() {
        use Standing::{Known, Silent, Speaks};
        let check = |name: &str, all: &[(u8, Standing)], full, expected| {
            assert_eq!(gives_way(&places(all), full, &at(1)), expected, "{name}");
        };
        check("nobody waits", &[], Full::All, None);
        check("not one of its own waits", &[(2, Silent)], Full::Client, None);
        check("its own silent one", &[(2, Silent), (1, Speaks), (1, Silent)], Full::Client, Some(2));
        check("its own oldest", &[(1, Known), (1, Speaks), (1, Speaks)], Full::Client, Some(1));
        // Three addresses whose requests were refused closed every handshake of others.
        check("a handshake", &[(1, Silent), (2, Speaks), (2, Speaks)], Full::All, Some(1));
        check("one of each: the oldest", &[(2, Speaks), (1, Silent), (3, Speaks)], Full::All, Some(0));
        check("strangers first", &[(1, Known), (1, Known), (1, Known), (2, Silent)], Full::All, Some(3));
        check(
            "known of an address count apart",
            &[(2, Silent), (1, Known), (1, Known), (1, Silent)],
            Full::All,
            Some(0),
        );
        check("known ones alone", &[(1, Known), (2, Known), (2, Known)], Full::All, Some(1));
    }
}
