//! The cases, each in a file with every peer's workload side by side. Go's stand in `go/`, under
//! the same names.

mod actor;
mod blocking;
mod cancel;
mod case;
mod chained_spawn;
mod channel_round_trip;
mod channel_stream;
mod computing;
mod consumers;
mod deliver;
mod download;
mod echo;
mod exchange;
mod fan_out;
mod fork_join;
mod halves;
mod http;
mod idle;
mod jobs;
mod many_producers;
mod mesh;
mod mutex;
mod nap;
mod outside;
mod outside_join;
mod paced;
mod parked;
mod ping_pong;
mod pipeline;
mod pool;
mod ring;
mod rwlock;
mod select;
mod semaphore;
mod short_connections;
mod sleepers;
mod spawn_many;
mod tickers;
mod timeout;
mod tree;
mod unbounded;
mod unstarted;
mod upload;
mod wake_bursts;
mod within;
mod yield_many;

pub use case::{Bar, Body, Case, HttpLoad, Kind, Part, Row, Unit};

/// In the order of the report.
pub const ALL: &[&Case] = &[
    &yield_many::CASE,
    &spawn_many::CASE,
    &chained_spawn::CASE,
    &ping_pong::CASE,
    &channel_round_trip::CASE,
    &channel_stream::CASE,
    &mutex::CASE,
    &sleepers::CASE,
    &http::FEW,
    &http::MANY,
    &http::PIPELINED,
    &echo::HUNDRED,
    &echo::MANY,
    &parked::CASE,
    &unstarted::CASE,
    &http::IDLE,
    &idle::CASE,
    &tree::CASE,
    &ring::CASE,
    &many_producers::CASE,
    &unbounded::CASE,
    &wake_bursts::CASE,
    &echo::ONE,
    &echo::FEW,
    &short_connections::CASE,
    &short_connections::POOL,
    &paced::CASE,
    &computing::CASE,
    &exchange::CASE,
    &exchange::BRIEF,
    &outside::CASE,
    &outside_join::CASE,
    &outside_join::EXCHANGE,
    &upload::CASE,
    &upload::RECORDS,
    &download::ONE,
    &download::FEW,
    &within::FEW,
    &within::STORE,
    &mutex::HELD,
    &mutex::COMPUTES,
    &mutex::COMPUTES_BRIEFLY,
    &rwlock::CASE,
    &rwlock::HELD,
    &semaphore::CASE,
    &consumers::CASE,
    &pool::CASE,
    &select::CASE,
    &select::TICK,
    &deliver::CASE,
    &actor::CASE,
    &mesh::CASE,
    &fan_out::CASE,
    &jobs::CASE,
    &fork_join::CASE,
    &halves::CASE,
    &pipeline::SHORT,
    &pipeline::BRIEF,
    &pipeline::LONG,
    &cancel::CASE,
    &cancel::TOLD,
    &nap::CASE,
    &nap::SHORT,
    &nap::CROWD,
    &tickers::FEW,
    &tickers::MANY,
    &tickers::VERY_MANY,
    &blocking::CASE,
    &blocking::READ,
    &blocking::READERS,
    &timeout::READY,
    &timeout::WAITS,
];
