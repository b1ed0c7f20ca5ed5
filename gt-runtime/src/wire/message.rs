//! The messages of links in all directions: their streams, tensor data, and weights.

use super::{Chunk, FromClient, FromWorker, Order, Parcel, Stream, ToClient, ToWorker};
use serde::{Deserialize, Serialize};

/// The weight of a request for its answer, so that a client may wait for a few thousand answers.
const ANSWER: u64 = 960;

/// A message of a link.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Message {
    /// Client to dispatcher.
    FromClient(FromClient),
    /// Dispatcher to client.
    ToClient(ToClient),
    /// Worker to dispatcher.
    FromWorker(FromWorker),
    /// Dispatcher to worker.
    ToWorker(ToWorker),
    /// Worker to worker.
    Parcel(Parcel),
}

/// The weight of a message against a link's credit: about the number of bytes that it holds, at
/// least [`Weight::LEAST`].
pub trait Weight {
    /// The weight of the smallest message.
    const LEAST: u64 = 64;
    /// The weight, equal at both ends.
    fn weight(&self) -> u64;
}

impl Weight for Message {
    fn weight(&self) -> u64 {
        let payload = match self {
            // The dispatcher may have to keep the answer.
            Message::FromClient(FromClient::Order(Order::Fetch { .. } | Order::Stats { .. })) => {
                ANSWER
            }
            Message::FromClient(FromClient::Order(order))
            | Message::ToWorker(ToWorker::Order { order, .. }) => order.payload(),
            Message::ToClient(ToClient::Failed { error, .. })
            | Message::FromWorker(FromWorker::Failed { error, .. }) => {
                (error.message.len() + error.hint.as_ref().map_or(0, String::len)) as u64
            }
            Message::ToClient(ToClient::Stats { stats, .. })
            | Message::FromWorker(FromWorker::Stats { stats, .. }) => {
                stats.signals.bytes() as u64 + Self::LEAST * stats.workers.len() as u64
            }
            Message::ToClient(ToClient::Note(text) | ToClient::Warning(text))
            | Message::FromWorker(FromWorker::Note { text, .. }) => text.len() as u64,
            Message::ToClient(ToClient::Planned(planned))
            | Message::FromWorker(FromWorker::Planned { planned, .. }) => {
                let texts = [&planned.failed, &planned.retyped].into_iter().flatten();
                texts.map(|text| text.len() as u64).sum()
            }
            Message::FromClient(FromClient::Moments(moments))
            | Message::FromWorker(FromWorker::Moments(moments)) => {
                size_of_val(&*moments.list) as u64
            }
            Message::FromClient(FromClient::Configure(signals)) => signals.bytes() as u64,
            Message::ToClient(ToClient::Chunk { chunk, .. })
            | Message::FromWorker(FromWorker::Chunk { chunk, .. }) => chunk.bytes.len() as u64,
            Message::Parcel(parcel) => return parcel.weight(),
            Message::FromWorker(FromWorker::Performed { performed, .. }) => {
                4 * (performed.arrived.len() + performed.returned.len()) as u64
            }
            Message::FromClient(FromClient::Close)
            | Message::FromWorker(
                FromWorker::Register(_) | FromWorker::Done { .. } | FromWorker::Sent { .. },
            )
            | Message::ToClient(ToClient::Watch)
            | Message::ToWorker(
                ToWorker::Open { .. } | ToWorker::EndSession { .. } | ToWorker::Watch,
            ) => 0,
        };
        payload + Self::LEAST
    }
}

impl Weight for Parcel {
    fn weight(&self) -> u64 {
        self.chunk.bytes.len() as u64 + Self::LEAST
    }
}

impl Message {
    /// The order it carries.
    #[must_use]
    pub fn order(&self) -> Option<&Order> {
        match self {
            Message::FromClient(FromClient::Order(order))
            | Message::ToWorker(ToWorker::Order { order, .. }) => Some(order),
            Message::FromClient(_)
            | Message::ToClient(_)
            | Message::ToWorker(_)
            | Message::FromWorker(_)
            | Message::Parcel(_) => None,
        }
    }

    /// Whether it is about a trace, and is therefore no event of one.
    #[must_use]
    pub fn is_of_trace(&self) -> bool {
        matches!(
            self,
            Message::FromClient(FromClient::Moments(_))
                | Message::FromWorker(FromWorker::Moments(_))
                | Message::ToClient(ToClient::Watch)
                | Message::ToWorker(ToWorker::Watch)
        )
    }

    /// The tensor data it carries.
    #[must_use]
    pub fn chunk(&self) -> Option<&Chunk> {
        match self {
            Message::FromClient(FromClient::Order(Order::Chunk(chunk)))
            | Message::ToWorker(ToWorker::Order { order: Order::Chunk(chunk), .. })
            | Message::ToClient(ToClient::Chunk { chunk, .. })
            | Message::FromWorker(FromWorker::Chunk { chunk, .. })
            | Message::Parcel(Parcel { chunk, .. }) => Some(chunk),
            Message::FromClient(_)
            | Message::ToClient(_)
            | Message::ToWorker(_)
            | Message::FromWorker(_) => None,
        }
    }

    pub(super) fn chunk_mut(&mut self) -> Option<&mut Chunk> {
        match self {
            Message::FromClient(FromClient::Order(Order::Chunk(chunk)))
            | Message::ToWorker(ToWorker::Order { order: Order::Chunk(chunk), .. })
            | Message::ToClient(ToClient::Chunk { chunk, .. })
            | Message::FromWorker(FromWorker::Chunk { chunk, .. })
            | Message::Parcel(Parcel { chunk, .. }) => Some(chunk),
            Message::FromClient(_)
            | Message::ToClient(_)
            | Message::ToWorker(_)
            | Message::FromWorker(_) => None,
        }
    }

    /// The stream it travels on.
    #[must_use]
    pub fn stream(&self) -> Stream {
        match self {
            Message::FromClient(FromClient::Order(order))
            | Message::ToWorker(ToWorker::Order { order, .. }) => order.stream(),
            // A client whose orders wait for room says what it does: it waits.
            Message::FromClient(FromClient::Moments(_))
            | Message::ToClient(ToClient::Chunk { .. })
            | Message::FromWorker(FromWorker::Chunk { .. })
            | Message::Parcel(_) => Stream::Bulk,
            Message::FromClient(_)
            | Message::ToClient(_)
            | Message::ToWorker(_)
            | Message::FromWorker(_) => Stream::Control,
        }
    }
}
