//! Counts connections, requests or bytes: in total, and by client. Pure but for a lock.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

use crate::base::table::Table;

/// A client, as it is counted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Client {
    /// A client without a known certificate, by its address: see [`household`].
    Address(IpAddr),
    /// The user of a known certificate, at any address.
    User(Arc<str>),
}

impl Client {
    /// The client at this address.
    #[must_use]
    pub fn at(address: IpAddr) -> Client {
        Client::Address(household(address))
    }
}

/// Counters. Clones share them.
#[derive(Debug, Clone)]
pub struct Census {
    most: usize,
    most_of_client: usize,
    /// 0: each client may have as many as are free, up to its limit.
    for_others: usize,
    present: Arc<Mutex<Present>>,
}

#[derive(Debug, Default)]
struct Present {
    all: usize,
    by_client: Table<Client, usize>,
}

/// The reason why there is no seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// The total limit is reached.
    All,
    /// The limit of this client is reached.
    Client,
}

/// Places of one client, until dropped.
#[derive(Debug)]
pub struct Seat {
    client: Client,
    places: usize,
    present: Arc<Mutex<Present>>,
}

impl Census {
    /// Counters at 0, with these limits.
    #[must_use]
    pub fn new(most: usize, most_of_client: usize) -> Census {
        Census { most, most_of_client, for_others: 0, present: Arc::default() }
    }

    /// The same, and what one client may have shrinks with what others leave free: a few clients do not take all. Not for
    /// places that the next one may take from another.
    #[must_use]
    pub fn fair(most: usize, most_of_client: usize) -> Census {
        let for_others = most.saturating_sub(most_of_client);
        Census { for_others, ..Census::new(most, most_of_client) }
    }

    /// Counts one more of this client.
    ///
    /// # Errors
    /// A limit is reached.
    pub fn enter(&self, client: Client) -> Result<Seat, Full> {
        self.enter_with(client, 1)
    }

    /// Counts so many more of this client, or all that there are. Only a client that has none may go over its limit.
    ///
    /// # Errors
    /// A limit is reached.
    pub fn enter_with(&self, client: Client, places: usize) -> Result<Seat, Full> {
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        let of_client = present.by_client.get(&client).copied().unwrap_or(0);
        let places = places.min(self.most);
        let after = of_client.saturating_add(places);
        if of_client > 0 && after > self.most_of_client {
            return Err(Full::Client);
        }
        let free = self.most.saturating_sub(present.all);
        let Some(left) = free.checked_sub(places) else { return Err(Full::All) };
        let leaves_enough = || {
            let (taken, left) = (after.saturating_sub(1), left.saturating_add(1));
            taken.saturating_mul(self.for_others) < left.saturating_mul(self.most_of_client)
        };
        if of_client > 0 && !leaves_enough() {
            return Err(Full::Client);
        }
        present.all = present.all.saturating_add(places);
        present.by_client.insert(client.clone(), after);
        Ok(Seat { client, places, present: Arc::clone(&self.present) })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        present.all = present.all.saturating_sub(self.places);
        if let Some(count) = present.by_client.get_mut(&self.client) {
            *count = count.saturating_sub(self.places);
            if *count == 0 {
                present.by_client.remove(&self.client);
            }
        }
    }
}

/// The address that counts: one machine may have a whole network of IPv6 addresses.
#[must_use]
fn household(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(six) => {
            let [a, b, c, d, ..] = six.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        four @ IpAddr::V4(_) => four,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_bound_and_all_have_one_together() {
        let census = Census::new(3, 2);
        let enter = |address: &str| census.enter(Client::at(address.parse().unwrap()));
        let first = enter("10.0.0.1").unwrap();
        let _second = enter("::ffff:10.0.0.1").unwrap();
        assert_eq!(enter("10.0.0.1").unwrap_err(), Full::Client);
        let _third = enter("2001:db8::1").unwrap();
        assert_eq!(enter("10.0.0.2").unwrap_err(), Full::All);
        drop(first);
        let _fourth = enter("2001:db8::ffff:1").unwrap();
        assert_eq!(enter("2001:db8::2").unwrap_err(), Full::Client, "of the same network");
    }

    #[test]
    fn what_is_larger_than_all_has_all_and_places_come_back() {
        let bytes = Census::new(10, 10);
        let enter = |places| bytes.enter_with(Client::User("ann".into()), places);
        let all = enter(100).unwrap();
        assert_eq!(enter(1).unwrap_err(), Full::Client);
        drop(all);
        let _most = enter(8).unwrap();
        assert_eq!(bytes.enter_with(Client::User("bob".into()), 3).unwrap_err(), Full::All);
        assert!(enter(2).is_ok());
    }

    /// Two users with few rights kept everybody else out.
    #[test]
    fn a_few_clients_leave_places_to_others() {
        for (most, most_of_client, expected) in
            [(64, 48, [48, 12, 3, 1]), (64, 32, [32, 16, 8, 4]), (18, 8, [8, 5, 3, 1])]
        {
            let census = Census::fair(most, most_of_client);
            let mut seats = Vec::new();
            let taken = ["ann", "bob", "cid", "dan"].map(|name| {
                let before = seats.len();
                while let Ok(seat) = census.enter(Client::User(name.into())) {
                    seats.push(seat);
                }
                seats.len() - before
            });
            assert_eq!(taken, expected, "{most}, {most_of_client}");
        }
    }
}
