//! Which connection goes when there is no place for another one.
//!
//! Never here: a connection; what is counted.

use std::cmp::Reverse;
use std::time::Instant;

use super::census::{Client, Full};
use crate::base::limits;
use crate::base::table::Table;

/// A connection without a request under way.
#[derive(Debug, Clone)]
pub struct Place {
    /// The client by its address.
    pub at: Client,
    /// The client that requests are counted for.
    pub client: Client,
    /// It has shown by a certificate, token or cookie that it has rights.
    pub is_known: bool,
    /// When the wait began.
    pub since: Instant,
}

/// The index of the connection that goes for a new one of the client at this address. Strangers go before those that have
/// rights, unless one of these has more than [`limits::SERVER_CONNECTIONS_KEPT`], or all of these more than half of the
/// places; and first those of the client with most: a few addresses or users keep nobody out. Of these the oldest goes, whatever it has sent: a handshake needs its time.
#[must_use]
pub fn gives_way(places: &[Place], full: Full, at: &Client) -> Option<usize> {
    // Those that have shown their rights, and the others: one address may have both.
    let mut counts = [false, true].map(|_| Table::<Client, usize>::new());
    for place in places {
        let [strangers, known] = &mut counts;
        let of = if place.is_known { known } else { strangers };
        let count = of.get_or_default(place.client.clone());
        *count = count.saturating_add(1);
    }
    let count = |place: &Place| {
        let [strangers, known] = &counts;
        let of = if place.is_known { known } else { strangers };
        of.get(&place.client).copied().unwrap_or(0)
    };
    let all = places.iter().enumerate().filter(|(_, place)| full == Full::All || place.at == *at);
    let known = all.clone().filter(|(_, place)| place.is_known).count();
    // A handshake is a stranger's, and needs a place.
    let most = match full {
        Full::All => limits::SERVER_CONNECTIONS,
        Full::Client => limits::SERVER_CONNECTIONS_OF_ADDRESS,
    };
    let have_most = known.saturating_mul(2) > most;
    let is_kept =
        |place: &Place| place.is_known && !have_most && count(place) <= limits::SERVER_CONNECTIONS_KEPT;
    let goes = all.min_by_key(|(_, place)| (is_kept(place), Reverse(count(place)), place.since));
    goes.map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(last: u8) -> Client {
        Client::at([192, 0, 2, last].into())
    }

    /// Connections by address, and whether they are known; the oldest first.
    fn places(all: &[(u8, bool)]) -> Vec<Place> {
        let begin = Instant::now();
        let place = |(age, &(last, is_known)): (u64, &(u8, bool))| Place {
            at: at(last),
            client: if is_known { Client::User(last.to_string().into()) } else { at(last) },
            is_known,
            since: begin + Duration::from_secs(age),
        };
        (0..).zip(all).map(place).collect()
    }

    #[test]
    fn strangers_of_the_address_with_most_go_first() {
        let (known, stranger) = (|last| (last, true), |last| (last, false));
        let check = |name: &str, all: &[(u8, bool)], full, expected| {
            assert_eq!(gives_way(&places(all), full, &at(1)), expected, "{name}");
        };
        check("nobody waits", &[], Full::All, None);
        check("not one of its own waits", &[stranger(2)], Full::Client, None);
        check("its own stranger", &[stranger(2), known(1), stranger(1)], Full::Client, Some(2));
        check("its own oldest", &[stranger(2), known(1), known(1)], Full::Client, Some(1));
        // Three addresses whose requests were refused closed every handshake of others.
        check("a handshake", &[stranger(1), stranger(2), stranger(2)], Full::All, Some(1));
        check("one of each: the oldest", &[stranger(2), stranger(1), stranger(3)], Full::All, Some(0));
        check("strangers first", &[known(1), known(1), known(1), stranger(2)], Full::All, Some(3));
        check("known ones count apart", &[stranger(2), known(1), known(1), stranger(1)], Full::All, Some(0));
        check("known ones alone", &[known(1), known(2), known(2)], Full::All, Some(1));
        // A token tells who it is, and no certificate: both are at one address.
        let mut mixed =
            places(&[vec![known(1)], vec![stranger(1); limits::SERVER_CONNECTIONS_KEPT]].concat());
        mixed[0].client = at(1);
        assert_eq!(gives_way(&mixed, Full::All, &at(2)), Some(1), "strangers at the address of a user");
        // One user with few rights took all places, and every handshake of others was closed.
        let many = vec![known(2); limits::SERVER_CONNECTIONS_KEPT];
        let with = |more: &[(u8, bool)]| [&[stranger(1)], many.as_slice(), more].concat();
        check("a user with many", &with(&[]), Full::All, Some(0));
        check("a user with too many", &with(&[known(2)]), Full::All, Some(1));
        // Four users, none of whom has too many, did the same.
        let four = |strangers: usize| {
            let users = (2..6).flat_map(|user| vec![known(user); limits::SERVER_CONNECTIONS_KEPT]);
            users.chain(std::iter::repeat_n(stranger(1), strangers)).collect::<Vec<_>>()
        };
        check("users with most places", &four(100), Full::All, Some(0));
        check("strangers with more", &four(4 * limits::SERVER_CONNECTIONS_KEPT), Full::All, Some(512));
    }
}
