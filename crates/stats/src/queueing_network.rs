//! Queueing models of a closed system: exact mean value analysis, and the interactive response-time law.
//!
//! N users think for Z seconds and then need D_k seconds of each station k (its *demand*: its busy time ÷ the number of
//! responses). These few numbers determine the rate and the response time for any N, without a fit: demands measured at
//! two low levels predict where the system saturates, and the prediction can be refuted, which gives it value. It makes
//! the assumptions of such networks (Baskett and others, 1975): the demands do not change with the load, and a waiting
//! user holds no other station. Locks, a cache that warms up, and garbage collection violate them.
//!
//! The method is Reiser and Lavenberg's: an arriving user sees the queue as it is with one user less. For stations with
//! several servers it also needs the probability that a station is empty, which their recursion computes as 1 − all
//! others: digits cancel, and beyond some twenty users of a busy station it becomes negative (Chandy and Sauer, 1980).
//! Here it is the quotient of two normalisation constants, by Buzen's convolution: sums of positive numbers, kept as
//! logarithms. No digits are lost up to [`USERS_MAX`].
//!
//! M. Reiser, S. S. Lavenberg: *Mean-value analysis of closed multichain queuing networks*, J. ACM 27 (1980) 313–322.
//! J. P. Buzen: *Computational algorithms for closed queueing networks with exponential servers*, Comm. ACM 16 (1973)
//! 527–531. E. D. Lazowska, J. Zahorjan, G. S. Graham, K. C. Sevcik: *Quantitative System Performance* (1984), chapters
//! 3, 5, 6.

/// The work grows with the square of the users.
pub const USERS_MAX: u32 = 2_000;
pub const STATIONS_MAX: usize = 64;
pub const SERVERS_MAX: u32 = 1_024;

/// A resource that users queue for.
#[derive(Clone, Debug, PartialEq)]
pub struct Station {
    pub name: String,
    /// Busy time of one of its servers per response, in seconds.
    pub demand_s: f64,
    /// Number of servers that share its queue: CPUs, or connections of a pool.
    pub servers: u32,
}

/// The system with a given number of users.
#[derive(Clone, Debug, PartialEq)]
pub struct Population {
    pub users: u32,
    /// Responses per second.
    pub rate: f64,
    /// From the request to the response, in seconds.
    pub response_s: f64,
    /// In the order of the input.
    pub stations: Vec<StationLoad>,
}

/// A station under load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StationLoad {
    /// Time per response, waiting and in service, in seconds.
    pub response_s: f64,
    /// Mean number of users at the station.
    pub queue: f64,
    /// The share of its servers that is busy.
    pub utilization: f64,
}

/// The users in a system according to the interactive response-time law (Little): rate × (response time + think time).
///
/// If this is not the number of users of a closed trial, a measurement was wrong.
#[must_use]
pub fn interactive_users(rate: f64, response_s: f64, think_s: f64) -> f64 {
    rate * (response_s + think_s)
}

/// The system with 1, 2, … `users_max` users.
///
/// None if a number is negative or not finite, all are zero, a station has no server, or a limit is exceeded
/// ([`USERS_MAX`], [`STATIONS_MAX`], [`SERVERS_MAX`]).
#[must_use]
pub fn exact_mva(stations: &[Station], think_s: f64, users_max: u32) -> Option<Vec<Population>> {
    if !is_usable(stations, think_s) || users_max > USERS_MAX {
        return None;
    }
    let constants = Constants::new(stations, think_s, users_max as usize);
    let mut queues: Vec<Queue> = stations.iter().map(Queue::empty).collect();
    let with_users = |users: u32| {
        let rate = constants.rate(users as usize);
        let loads: Vec<StationLoad> = queues
            .iter_mut()
            .zip(stations)
            .zip(&constants.without)
            .map(|((queue, station), without)| {
                queue.add_user(station, rate, constants.empty(without.as_deref(), users as usize))
            })
            .collect();
        let response_s = loads.iter().map(|load| load.response_s).sum();
        Population { users, rate, response_s, stations: loads }
    };
    Some((1..=users_max).map(with_users).collect())
}

fn is_usable(stations: &[Station], think_s: f64) -> bool {
    let is_time = |time: f64| time.is_finite() && time >= 0.0;
    stations.len() <= STATIONS_MAX
        && is_time(think_s)
        && stations.iter().all(|station| is_time(station.demand_s) && (1..=SERVERS_MAX).contains(&station.servers))
        && (think_s > 0.0 || stations.iter().any(|station| station.demand_s > 0.0))
}

/// A station's state with one user less, while users are added one by one.
struct Queue {
    length: f64,
    /// Probabilities of 0, 1, … users, as long as a server is left in addition to that of the arriving user.
    probabilities: Vec<f64>,
}

impl Queue {
    fn empty(station: &Station) -> Self {
        let mut probabilities = vec![0.0; station.servers as usize - 1];
        if let Some(first) = probabilities.first_mut() {
            *first = 1.0;
        }
        Self { length: 0.0, probabilities }
    }

    /// The arrival theorem: an arriving user sees the state without itself.
    fn add_user(&mut self, station: &Station, rate: f64, empty: f64) -> StationLoad {
        let servers = f64::from(station.servers);
        // With j users present, servers − 1 − j are free in addition to the one that it takes.
        let idle: f64 = self
            .probabilities
            .iter()
            .enumerate()
            .map(|(users, probability)| (servers - 1.0 - users as f64) * probability)
            .sum();
        let response_s = station.demand_s / servers * (1.0 + self.length + idle);
        self.length = rate * response_s;
        for users in (1..self.probabilities.len()).rev() {
            self.probabilities[users] = rate * station.demand_s / users as f64 * self.probabilities[users - 1];
        }
        if let Some(first) = self.probabilities.first_mut() {
            *first = empty;
        }
        StationLoad { response_s, queue: self.length, utilization: rate * station.demand_s / servers }
    }
}

/// Logarithms of the normalisation constants for 0, 1, … users.
struct Constants {
    of_all: Vec<f64>,
    /// For each station with several servers: the constants of the network without it.
    without: Vec<Option<Vec<f64>>>,
}

impl Constants {
    fn new(stations: &[Station], think_s: f64, users_max: usize) -> Self {
        let mut simple = vec![f64::NEG_INFINITY; users_max + 1];
        simple[0] = 0.0;
        for station in stations.iter().filter(|station| station.servers == 1) {
            add_single(&mut simple, station.demand_s);
        }
        // Each thinking user has its own server.
        let simple = convolve(&simple, &weights(think_s, u32::MAX, users_max));
        let several: Vec<(usize, Vec<f64>)> = stations
            .iter()
            .enumerate()
            .filter(|(_, station)| station.servers > 1)
            .map(|(index, station)| (index, weights(station.demand_s, station.servers, users_max)))
            .collect();
        let all_but = |left_out: Option<usize>| {
            let others = several.iter().filter(|(index, _)| Some(*index) != left_out);
            others.fold(simple.clone(), |constants, (_, weights)| convolve(&constants, weights))
        };
        let without = |(index, station): (usize, &Station)| (station.servers > 1).then(|| all_but(Some(index)));
        Self { of_all: all_but(None), without: stations.iter().enumerate().map(without).collect() }
    }

    fn rate(&self, users: usize) -> f64 {
        (self.of_all[users - 1] - self.of_all[users]).exp()
    }

    /// The probability that no user is at the station that is missing in `without`.
    fn empty(&self, without: Option<&[f64]>, users: usize) -> f64 {
        without.map_or(0.0, |without| (without[users] - self.of_all[users]).exp())
    }
}

/// Adds a station with one server, in place: G(n) = G without it (n) + D · G(n−1).
fn add_single(constants: &mut [f64], demand_s: f64) {
    for users in 1..constants.len() {
        constants[users] = ln_sum(&[constants[users], demand_s.ln() + constants[users - 1]]);
    }
}

/// ln(Dⁿ ÷ (α(1)·α(2)·…·α(n))), where α(n) servers work on n users.
fn weights(demand_s: f64, servers: u32, users_max: usize) -> Vec<f64> {
    let mut sum = 0.0;
    let mut weights = vec![0.0];
    for users in 1..=users_max {
        sum += demand_s.ln() - (users.min(servers as usize) as f64).ln();
        weights.push(sum);
    }
    weights
}

fn convolve(one: &[f64], other: &[f64]) -> Vec<f64> {
    let mut terms = Vec::with_capacity(one.len());
    let of_users = |users: usize| {
        terms.clear();
        terms.extend((0..=users).map(|here| one[here] + other[users - here]));
        ln_sum(&terms)
    };
    (0..one.len()).map(of_users).collect()
}

/// The logarithm of the sum of the values with these logarithms.
fn ln_sum(logarithms: &[f64]) -> f64 {
    let largest = logarithms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return largest;
    }
    largest + logarithms.iter().map(|logarithm| (logarithm - largest).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stations(demands: &[(f64, u32)]) -> Vec<Station> {
        let station = |&(demand_s, servers)| Station { name: String::new(), demand_s, servers };
        demands.iter().map(station).collect()
    }

    fn near(left: f64, right: f64, relative: f64) -> bool {
        (left - right).abs() <= relative * right.abs().max(1e-12)
    }

    /// Limits of any system with these demands.
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Bounds {
        rate_max: f64,
        rate_min: f64,
        response_min_s: f64,
    }

    /// Bounds that hold for any distribution of the times.
    fn bounds(stations: &[Station], think_s: f64, users: f64) -> Bounds {
        let demand: f64 = stations.iter().map(|station| station.demand_s).sum();
        let longest = stations.iter().map(|station| station.demand_s).fold(0.0, f64::max);
        let bottleneck =
            stations.iter().map(|station| station.demand_s / f64::from(station.servers)).fold(0.0, f64::max);
        Bounds {
            rate_max: (users / (demand + think_s)).min(1.0 / bottleneck),
            // In the worst case, all other users are ahead at the slowest station.
            rate_min: users / (think_s + demand + (users - 1.0) * longest),
            response_min_s: demand.max(users * bottleneck - think_s),
        }
    }

    /// R. Jain: *The Art of Computer Systems Performance Analysis* (1991), example 34.2: a CPU and two disks, Z = 4 s.
    #[test]
    fn agrees_with_jain() {
        let table = exact_mva(&stations(&[(2.0, 1), (3.0, 1), (1.0, 1)]), 4.0, 20).unwrap();
        for (users, response, rate) in
            [(1, 6.0, 0.100), (2, 7.4, 0.175), (3, 9.088, 0.229), (4, 11.051, 0.266), (5, 13.256, 0.290)]
        {
            let of_users = &table[users - 1];
            assert!((of_users.response_s - response).abs() < 6e-4, "{of_users:?}");
            assert!((of_users.rate - rate).abs() < 6e-4, "{of_users:?}");
        }
        assert!((table[19].rate - 0.333).abs() < 6e-4 && (table[19].response_s - 56.0).abs() < 0.05, "{:?}", table[19]);
    }

    /// Lazowska and others, 6.4: a CPU and two disks, Z = 15 s, three users.
    #[test]
    fn agrees_with_lazowska() {
        let table = exact_mva(&stations(&[(0.605, 1), (2.1, 1), (1.35, 1)]), 15.0, 3).unwrap();
        assert!(near(table[0].rate, 1.0 / 19.055, 1e-9));
        assert!((table[2].rate - 0.152).abs() < 6e-4 && (table[2].response_s - 4.80).abs() < 6e-3, "{:?}", table[2]);
    }

    /// One station and thinking users: the machine-repair model, M/M/c//N, from its birth–death equations.
    #[test]
    fn agrees_with_the_machine_repair_model() {
        for (demand_s, servers, think_s, users) in
            [(0.1, 1, 1.0, 25), (0.5, 4, 2.0, 40), (0.02, 8, 0.1, 30), (1.0, 64, 1.0, 100)]
        {
            let mut weight = 1.0;
            let (mut sum, mut busy) = (1.0, 0.0);
            for there in 1..=users {
                let at_work = f64::from(servers.min(there));
                weight *= f64::from(users - there + 1) / think_s * demand_s / at_work;
                sum += weight;
                busy += weight * at_work;
            }
            let expected = busy / sum / demand_s;
            let table = exact_mva(&stations(&[(demand_s, servers)]), think_s, users).unwrap();
            let last = table.last().unwrap();
            assert!(near(last.rate, expected, 1e-10), "{} instead of {expected}", last.rate);
            assert!(near(last.response_s, f64::from(users) / expected - think_s, 1e-8), "{last:?}");
        }
    }

    /// K identical stations: X(N) = N ÷ (D (N + K − 1)).
    #[test]
    fn agrees_with_the_closed_form_of_balanced_networks() {
        let table = exact_mva(&stations(&[(0.2, 1); 5]), 0.0, 200).unwrap();
        for of_users in &table {
            let users = f64::from(of_users.users);
            assert!(near(of_users.rate, users / (0.2 * (users + 4.0)), 1e-10), "{of_users:?}");
            assert!(near(of_users.stations[3].queue, users / 5.0, 1e-9), "{of_users:?}");
        }
    }

    /// A case with negative probabilities in the plain recursion: sixteen busy servers behind another station.
    #[test]
    fn stays_exact_under_heavy_load() {
        let network = stations(&[(0.16, 16), (0.009_9, 1), (0.3, 32)]);
        let table = exact_mva(&network, 0.5, 600).unwrap();
        for of_users in &table {
            let there: f64 = of_users.stations.iter().map(|station| station.queue).sum();
            let users = there + of_users.rate * 0.5;
            assert!(near(users, f64::from(of_users.users), 1e-8), "{users} of {}", of_users.users);
        }
        let last = table.last().unwrap();
        assert!(near(last.stations[0].utilization, 1.0, 0.01), "{last:?}");
        let rises = table.windows(2).all(|pair| pair[1].rate >= pair[0].rate * (1.0 - 1e-12));
        assert!(rises, "more users never get less done");
    }

    #[test]
    fn who_never_waits_takes_his_demand() {
        let table = exact_mva(&stations(&[(0.4, 50)]), 0.6, 50).unwrap();
        assert!(table.iter().all(|row| near(row.response_s, 0.4, 1e-9) && near(row.rate, f64::from(row.users), 1e-9)));
        let only_thinking = exact_mva(&stations(&[(0.0, 1), (0.0, 4)]), 2.0, 3).unwrap();
        assert!(near(only_thinking[2].rate, 1.5, 1e-12), "{only_thinking:?}");
    }

    #[test]
    fn refuses_what_is_no_system() {
        assert_eq!(exact_mva(&[], 0.0, 3), None);
        assert_eq!(exact_mva(&stations(&[(0.0, 1)]), 0.0, 3), None);
        assert_eq!(exact_mva(&stations(&[(-1.0, 1)]), 1.0, 3), None);
        assert_eq!(exact_mva(&stations(&[(1.0, 0)]), 1.0, 3), None);
        assert_eq!(exact_mva(&stations(&[(1.0, 1)]), f64::NAN, 3), None);
        assert_eq!(exact_mva(&stations(&[(1.0, 1)]), 1.0, USERS_MAX + 1), None);
        assert_eq!(exact_mva(&stations(&[(1.0, 1)]), 1.0, 0), Some(vec![]));
    }

    #[test]
    fn the_bounds_of_an_example() {
        let bounds = bounds(&stations(&[(2.0, 1), (3.0, 1), (1.0, 1)]), 4.0, 2.0);
        assert!(near(bounds.rate_max, 0.2, 1e-12), "{bounds:?}");
        assert_eq!(bounds.response_min_s, 6.0);
        assert_eq!(interactive_users(0.175, 7.4, 4.0), 0.175 * 11.4);
    }

    proptest! {
        #[test]
        fn users_are_kept_and_bounds_hold(
            network in prop::collection::vec((0.0_f64..2.0, 1_u32..6), 1..5), think_s in 0.001_f64..10.0, users in 1_u32..60,
        ) {
            let network = stations(&network);
            let table = exact_mva(&network, think_s, users).unwrap();
            let last = table.last().unwrap();
            let found = interactive_users(last.rate, last.response_s, think_s);
            prop_assert!(near(found, f64::from(users), 1e-8), "{} of {}", found, users);
            let bounds = bounds(&network, think_s, f64::from(users));
            prop_assert!(last.rate <= bounds.rate_max * (1.0 + 1e-9) && last.rate >= bounds.rate_min * (1.0 - 1e-9), "{:?}", bounds);
            prop_assert!(last.response_s >= bounds.response_min_s * (1.0 - 1e-9) - 1e-9, "{:?}", bounds);
        }
    }
}
