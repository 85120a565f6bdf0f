//! How many connections, or requests, there are: in all, and of each address. Pure but for a lock.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// Clones share the numbers.
#[derive(Debug, Clone)]
pub struct Census {
    most: usize,
    most_of_address: usize,
    present: Arc<Mutex<Present>>,
}

#[derive(Debug, Default)]
struct Present {
    all: usize,
    by_address: BTreeMap<IpAddr, usize>,
}

/// Why there is no seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// There are as many as may be.
    All,
    /// There are as many of this address as may be.
    Address,
}

/// One that counts until it is dropped.
#[derive(Debug)]
pub struct Seat {
    address: IpAddr,
    present: Arc<Mutex<Present>>,
}

impl Census {
    /// Nobody is there yet.
    #[must_use]
    pub fn new(most: usize, most_of_address: usize) -> Census {
        Census { most, most_of_address, present: Arc::default() }
    }

    /// One more of this address.
    ///
    /// # Errors
    /// There is no room.
    pub fn enter(&self, address: IpAddr) -> Result<Seat, Full> {
        let address = household(address);
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        let of_address = present.by_address.get(&address).copied().unwrap_or(0);
        if of_address >= self.most_of_address {
            return Err(Full::Address);
        }
        if present.all >= self.most {
            return Err(Full::All);
        }
        present.all = present.all.saturating_add(1);
        present.by_address.insert(address, of_address.saturating_add(1));
        Ok(Seat { address, present: Arc::clone(&self.present) })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        present.all = present.all.saturating_sub(1);
        if let Some(count) = present.by_address.get_mut(&self.address) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                present.by_address.remove(&self.address);
            }
        }
    }
}

/// What counts as one address: one machine has a whole network of IPv6 addresses.
#[must_use]
pub fn household(address: IpAddr) -> IpAddr {
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
        let enter = |address: &str| census.enter(address.parse().unwrap());
        let first = enter("10.0.0.1").unwrap();
        let _second = enter("::ffff:10.0.0.1").unwrap();
        assert_eq!(enter("10.0.0.1").unwrap_err(), Full::Address);
        let _third = enter("2001:db8::1").unwrap();
        assert_eq!(enter("10.0.0.2").unwrap_err(), Full::All);
        drop(first);
        let _fourth = enter("2001:db8::ffff:1").unwrap();
        assert_eq!(enter("2001:db8::2").unwrap_err(), Full::Address, "of the same network");
    }
}
