//! The items that the integration tests (`tests/it`) and the fuzz targets (`tests/fuzz`) use, and no others: every
//! other item is private to the program, so that the compiler reports unused ones. It is compiled only with the feature
//! `testing`, which the tests of this package turn on by themselves; the shipped program is built without it.
//!
//! Never here: an item that no test imports, or code.

pub mod api {
    pub use crate::api::kinds::{Resource, of as kind_of};
    pub use crate::api::path::route;
    pub use crate::api::proto::object;
    pub use crate::api::selector::Selector;
    pub use crate::api::write::form::typed;
    pub use crate::api::write::managed::{By, apply};
    pub use crate::api::write::patch::Kind;
    pub use crate::api::write::resize::resized;
    pub mod added {
        pub use crate::api::write::added::news;
    }
}

pub mod api_client {
    pub use crate::api_client::{ApiError, Client, Kind, Method, Request, WatchEvent};
    pub mod kubeconfig {
        pub use crate::api_client::kubeconfig::parse;
    }
    pub mod pods {
        pub use crate::api_client::pods::PodsOfNode;
    }
    pub mod watch {
        pub use crate::api_client::watch::events;
    }
}

pub mod base {
    pub mod clock {
        pub use crate::base::clock::{Boot, Clock, Mono, Now, System, Timestamp};
    }
    pub mod limits {
        pub use crate::base::limits::{
            COLLECT_FRESH, COLLECT_LONGEST, COLLECT_PATIENCE, COUNTS_HANGING, EVENTS, EVICTION_PATIENCE,
            IDLE_CONNECTIONS, RESTORE_HEAD_START, SCAN_COALESCE, VOLUMES_AT_ONCE,
        };
    }
    pub mod table {
        pub use crate::base::table::{Set, Table};
    }
    pub mod tls {
        pub use crate::base::tls::of_any_server;
    }
}

pub mod certificates {
    pub mod discovery {
        pub use crate::certificates::discovery::{Token, checked};
    }
    pub mod files {
        pub use crate::certificates::files::Held;
    }
    pub mod request {
        pub use crate::certificates::request::verdict;
    }
}

pub mod jsonpath {
    pub use crate::base::jsonpath::Template;
}

pub mod cgroup {
    pub use crate::cgroup::{Cgroups, Driver, Naming, Report};
    pub mod node {
        pub use crate::cgroup::node::{MOUNT, Settings};
    }
}

pub mod cluster {
    pub use crate::cluster::answer::Answer;
    pub mod desk {
        pub use crate::cluster::pods::added::Failures;
        pub use crate::cluster::pods::desk::{Ask, Desk, Next, World};
    }
}

pub mod cni {
    pub use crate::cni::networks::Ready;
    pub use crate::cni::{Order, Report};
    pub mod answer {
        pub use crate::cni::answer::{addresses, failure, result, versions};
    }
    pub mod call {
        pub use crate::cni::call::input;
    }
    pub mod conf {
        pub use crate::cni::conf::parse;
    }
    pub mod record {
        pub use crate::cni::record::Record;
    }
}

pub mod daemon {
    pub mod config {
        pub use crate::daemon::config::{ApiSource, Config, Sources, testing};
    }
    pub mod drain {
        pub use crate::daemon::drain::Drain;
    }
    pub mod kmsg {
        pub use crate::daemon::kmsg::parse;
    }
    pub mod keeper {
        pub mod mind {
            pub use crate::daemon::keeper::mind::{Choice, Deed, Mind, Seen};
        }
    }
    pub mod turn {
        pub use crate::daemon::turn::{Earlier, Effect, Event, RuntimeEvent, Turn};
    }
}

pub mod eviction {
    pub use crate::eviction::{Eviction, News};
    pub mod manager {
        pub use crate::eviction::manager::{End, Observation};
    }
    pub mod rank {
        pub use crate::eviction::rank::{Candidate, Counted};
    }
    pub mod signal {
        pub use crate::eviction::signal::{Resource, Signal};
    }
    pub mod threshold {
        pub use crate::eviction::threshold::{
            Amount, Amounts, Options, Settings, Threshold, grace_periods, reclaims, thresholds,
        };
    }
}

pub mod garbage {
    pub use crate::garbage::{Order, Report};
    pub mod images {
        pub use crate::garbage::images::Policy;
    }
    pub mod pins {
        pub use crate::garbage::pins::Pin;
    }
    pub mod records {
        pub use crate::garbage::records::{Ask, Moment, Records};
    }
    pub mod run {
        pub use crate::garbage::run::{Run, View};
    }
    pub mod schedule {
        pub use crate::garbage::schedule::Disk;
    }
    pub mod wants {
        pub use crate::garbage::wants::Wants;
    }
}

pub mod machine {
    pub use crate::machine::{
        Hint, Input, Machine, NodeFacts, Output, PullOutcome, PullRequest, Pulled, Settings, Slot, Token,
    };
}

pub mod manifest {
    pub use crate::manifest::{Context, Decoded, Inspected, Rules, decode, inspect};
    pub mod edition {
        pub use crate::manifest::edition::Known;
    }
    pub mod selectors {
        pub use crate::manifest::selectors::{FieldSelector, LabelSelector};
    }
}

pub mod mapping {
    pub use crate::mapping::MapConfig;
    pub use crate::mapping::logs::{LogDriver, LogSettings};
    pub mod needs {
        pub use crate::mapping::needs::Create;
    }
}

pub mod network {
    pub use crate::network::NetworkConfig;
}

pub mod node {
    pub use crate::node::Node;
    pub mod pressure {
        pub use crate::node::pressure::Pressure;
    }
}

pub mod pod {
    pub use crate::pod::{DesiredPod, PodKey, Source};
    pub mod allocatable {
        pub use crate::pod::allocatable::Allocatable;
    }
    pub mod object {
        pub use crate::pod::object::{LocalObject, ObjectKind, SERVICES};
    }
    pub mod priority {
        pub use crate::pod::priority::of;
    }
    pub mod problem {
        pub use crate::pod::problem::Problem;
    }
}

pub mod policy {
    pub use crate::policy::LevelVersion;
    pub use crate::policy::standards::{evaluate, message};
}

pub mod probe {
    pub use crate::probe::outcome::Outcome;
    pub use crate::probe::{Kind, Probing, Target, Watch};
    pub mod prober {
        pub use crate::probe::prober::News;
    }
    pub mod schedule {
        pub use crate::probe::schedule::{ProbeId, Schedule};
    }
    pub mod spec {
        pub use crate::probe::spec::Timing;
    }
}

pub mod recorder {
    pub mod object {
        pub use crate::recorder::object::{EventObject, read};
    }
}

pub mod runtime {
    pub use crate::runtime::{
        Call, ContainerDetail, ContainerSummary, CreateBody, DockerError, DockerState, Empty, ExecBody,
        ExecDetail, HostConfig, HostDetail, ImageDetail, ImageSummary, Mount, Namespaces, NetworkBody,
        PortBinding, Refusal, RefusalKind, Reply, Resources,
    };
    pub mod client {
        pub use crate::runtime::client::Client;
    }
    pub mod connection {
        pub use crate::runtime::connection::Wait;
    }
    pub mod docker {
        pub use crate::runtime::docker::{Docker, Endpoint};
    }
    pub mod event_stream {
        pub use crate::runtime::event_stream::{DockerEvent, EventAction, EventNext};
    }
    pub mod fake {
        pub use crate::runtime::fake::{Behaviour, Cursor, EventNext, Fake, FaultPlan, Restart, Rng, State};
    }
    pub mod frames {
        pub use crate::runtime::frames::StreamKind;
    }
    pub mod labels {
        pub use crate::runtime::labels::{
            CONTAINER_NAME, HASH, NEVER_RAN, POD_NAME, POD_NAMESPACE, POD_UID, RESTART_COUNT, ROOT_DIR,
            SANDBOX_ATTEMPT, SANDBOX_ID, SANDBOX_NAME, SOURCE, TYPE, TYPE_CONTAINER, TYPE_SANDBOX, WRITTEN,
        };
    }
    pub mod pull {
        pub use crate::runtime::pull::Patience;
    }
    pub mod request {
        pub use crate::runtime::request::{AttachOptions, LogOptions};
    }
    pub mod sandbox_image {
        pub use crate::runtime::sandbox_image::{image_name, image_tar};
        pub mod tar {
            pub use crate::runtime::sandbox_image::tar::{Entry, archive};
        }
    }
    pub mod stream {
        pub use crate::runtime::stream::{Output, OutputStream};
    }
}

pub mod server {
    pub use crate::server::Settings;
    pub mod stream {
        pub mod command {
            pub use crate::server::stream::command::{Channel, Streams, Wanted};
        }
        pub mod negotiate {
            pub use crate::server::stream::negotiate::{Command, Forward};
        }
        pub mod ports {
            pub use crate::server::stream::ports::{News, Pairs};
        }
        pub mod websocket {
            pub use crate::server::stream::websocket::Form;
        }
    }
}

pub mod source {
    pub use crate::source::{FromSource, PodSet, SourceUpdate};
    pub mod api {
        pub use crate::source::api::Settings;
        pub use crate::source::api::decode::{Meaning, Read, forced, object, read, read_remembered};
        pub use crate::source::api::reflector::{Ask, Reflector};
    }
    pub mod accept {
        pub use crate::source::accept::Acceptor;
    }
    pub mod disk {
        pub use crate::source::disk::{Disk, Found, Reading, Stamp};
    }
    pub mod hints {
        pub use crate::source::hints::Hints;
    }
    pub mod http {
        pub use crate::source::http::{HttpSource, Patience, Settings};
        pub mod fetch {
            pub use crate::source::http::fetch::Validators;
        }
        pub mod headers {
            pub use crate::source::http::headers::parse;
        }
        pub mod state {
            pub use crate::source::http::state::{Answer, Content, State};
        }
        pub mod tls {
            pub use crate::source::http::tls::ClientFiles;
        }
        pub mod url {
            pub use crate::source::http::url::ManifestUrl;
        }
    }
    pub mod in_force {
        pub use crate::source::in_force::Version;
    }
    pub mod last_good {
        pub use crate::source::last_good::sealed::parse;
        pub use crate::source::last_good::{Key, LastGood, Remembered, directory};
        pub mod forget {
            pub use crate::source::last_good::forget::forget;
        }
        pub mod replay {
            pub use crate::source::last_good::replay::replay;
        }
    }
    pub mod scan {
        pub use crate::source::scan::Scanner;
    }
    pub mod signature {
        pub use crate::source::signature::Verifier;
    }
}

pub mod stats {
    pub mod cgroup {
        pub use crate::stats::cgroup::Hierarchies;
    }
}

pub mod status {
    pub mod task {
        pub use crate::status::task::Pulses;
    }
    pub mod snapshot {
        pub use crate::status::snapshot::{PodView, Snapshot, SourceView, StatusFile, UNMANAGED};
    }
}

pub mod volumes {
    pub use crate::volumes::{Failure, Order, Report};
    pub mod mounts {
        pub use crate::volumes::mounts::table;
    }
}
