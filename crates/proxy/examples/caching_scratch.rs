use breme_balance::{Group, GroupSettings, UpstreamSettings};
use breme_driver::{Clock, Kind, Listener, Settings as D, start};
use breme_proxy::*;
use std::sync::Arc;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let kind: Kind = a[1].parse().unwrap();
    let settings = D { threads: 1, cpus: a.get(4).map(|c| vec![c.parse().unwrap()]).unwrap_or_default(), ..D::default() };
    let listener = Listener::bind(a[2].parse().unwrap(), &settings).unwrap();
    let clock = Clock::start();
    let up = UpstreamSettings { name: a[3].clone(), tls: false, addresses: vec![a[3].parse().unwrap()], weight: 1, route: None };
    let group = Group::new(GroupSettings::default(), vec![up]).unwrap();
    let s = Settings::new(Mode::Reverse { host: HostRule::Keep });
    let memory = std::env::var("CACHE").ok().and_then(|m| m.parse().ok()).unwrap_or(256u64 << 20);
    let cache = breme_cache::Cache::new(breme_cache::Settings::new(memory)).unwrap();
    let proxy = Proxy::new(Parts { cache: Some(cache.clone()), group: Some(Arc::new(group)), ..Parts::new(s, clock.wall_clock()) }).unwrap();
    let p = proxy.clone();
    let running = start(kind, vec![listener], &settings, clock, move |shard| p.node(shard)).unwrap();
    eprintln!("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    running.stopper().drain();
    running.join();
    let c = proxy.counts();
    eprintln!("{c:?}\n{:?}", cache.statistics());
}
