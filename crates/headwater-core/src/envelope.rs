//! Events in the formats of other systems: the envelope of a message bus, and CloudEvents.

use std::collections::BTreeMap;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};

use crate::{Event, Json, headers};

/// An event in the form that consumers of a message bus expect. In JSON, its fields are in camel
/// case, and fields that are `None` are left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventEnvelope {
    /// The namespace.
    pub namespace: String,
    /// The event's type.
    pub event_type: String,
    /// The event's data.
    pub payload: Json,
    /// When the event was emitted, by the producer's clock.
    pub emitted_at: DateTime<Utc>,
    /// The node that emitted the event, or `scheduler` if a schedule did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub producer_node_id: Option<String>,
    /// The event's place in the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<u64>,
    /// The scheduled task that emitted the event, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled_task_id: Option<String>,
    /// How often the event was delivered before, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redelivery_count: Option<u32>,
    /// The event's other headers, and the metadata that came with it, with its JSON types.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, Json>,
}

impl EventEnvelope {
    /// The envelope of an event. Only the event's consumer knows `redelivery_count`.
    pub fn of(namespace: impl Into<String>, event: &Event, redelivery_count: Option<u32>) -> Self {
        let header = |name: &str| event.headers.get(name).cloned();
        EventEnvelope {
            namespace: namespace.into(),
            event_type: event.event_type.clone(),
            payload: event.data.clone().unwrap_or_else(Json::null),
            emitted_at: event.created_at,
            producer_node_id: header(headers::PRODUCER_NODE_ID),
            message_id: event.global_sequence,
            scheduled_task_id: header(headers::SCHEDULED_TASK_ID),
            redelivery_count,
            metadata: metadata(event),
        }
    }
}

/// Headers that an envelope has as fields, and headers that say how the event is delivered.
const FIELDS: [&str; 4] =
    [headers::PRODUCER_NODE_ID, headers::SCHEDULED_TASK_ID, headers::METADATA, headers::BROADCAST];

fn metadata(event: &Event) -> BTreeMap<String, Json> {
    let others = event.headers.iter().filter(|(name, _)| !FIELDS.contains(&name.as_str()));
    let mut metadata: BTreeMap<String, Json> =
        others.filter_map(|(name, value)| Some((name.clone(), Json::encode(value).ok()?))).collect();
    // Another system's header may have this name by chance. Then it is not a JSON object.
    let typed = event.headers.get(headers::METADATA).and_then(|text| serde_json::from_str(text).ok());
    metadata.extend(typed.unwrap_or_else(BTreeMap::new));
    metadata
}

/// An event as a [CloudEvents](https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/spec.md)
/// 1.0 event. A header becomes an extension, `traceparent` included, if its name can be the name of
/// one: at most 20 lower-case letters and digits, without a meaning in the specification.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CloudEvent {
    specversion: &'static str,
    /// The event's id.
    pub id: String,
    /// `/` and the namespace.
    pub source: String,
    /// The event's type.
    #[serde(rename = "type")]
    pub event_type: String,
    /// The stream, if the event belongs to one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// When the event happened, by the producer's clock.
    pub time: String,
    datacontenttype: &'static str,
    /// The event's data.
    pub data: Json,
    /// The extensions: `globalsequence`, `streamversion`, `schemaversion`, `partitionkey`,
    /// `producernodeid`, `correlationid`, `causationid`, `actorid`, and those made from headers.
    #[serde(flatten)]
    pub extensions: BTreeMap<String, String>,
}

/// Names to which the specification itself gives a meaning.
const CONTEXT: [&str; 8] = ["specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema"];

impl CloudEvent {
    /// Converts an event of a namespace.
    pub fn of(namespace: &str, event: &Event) -> Self {
        let mut extensions = BTreeMap::new();
        for (name, value) in &event.headers {
            let is_name = (1..=20).contains(&name.len())
                && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
                && !CONTEXT.contains(&name.as_str())
                && !name.starts_with("data");
            if is_name && !value.is_empty() {
                extensions.insert(name.clone(), value.clone());
            }
        }
        let mut extend = |name: &str, value: Option<String>| {
            extensions.extend(value.map(|value| (name.to_owned(), value)));
        };
        // Numbers become strings, because the specification's integers have 32 bits.
        extend("globalsequence", event.global_sequence.map(|sequence| sequence.to_string()));
        extend("streamversion", event.stream_version.map(|version| version.to_string()));
        extend("schemaversion", Some(event.schema_version.to_string()));
        extend("partitionkey", event.key.clone());
        extend("producernodeid", event.headers.get(headers::PRODUCER_NODE_ID).cloned());
        extend("scheduledtaskid", event.headers.get(headers::SCHEDULED_TASK_ID).cloned());
        extend("correlationid", event.correlation_id.map(|id| id.to_string()));
        extend("causationid", event.causation_id.map(|id| id.to_string()));
        extend("actorid", event.actor_id.clone());
        CloudEvent {
            specversion: "1.0",
            id: event.id.to_string(),
            source: format!("/{namespace}"),
            event_type: event.event_type.clone(),
            subject: event.stream_id.as_deref().map(str::to_owned),
            time: event.created_at.to_rfc3339_opts(SecondsFormat::AutoSi, true),
            datacontenttype: "application/json",
            data: event.data.clone().unwrap_or_else(Json::null),
            extensions,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{CloudEvent, EventEnvelope};
    use crate::Event;

    fn event() -> Event {
        let mut event = Event::raw("user.created", json!({ "userId": "123" })).in_stream("user-123");
        event.global_sequence = Some(7);
        event.stream_version = Some(1);
        let headers = [
            ("producer_node_id", "api-1"),
            ("scheduled_task_id", "t-1"),
            ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
            ("data", "a header must not replace the data"),
            ("Not A Name", "left out"),
        ];
        event.headers = headers.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        event
    }

    #[test]
    fn an_envelope_is_in_camel_case_and_reads_back() {
        let event = event();
        let envelope = EventEnvelope::of("myapp", &event, Some(2));
        let json = serde_json::to_value(&envelope).unwrap();
        let expected = json!({
            "namespace": "myapp", "eventType": "user.created", "payload": {"userId": "123"}, "emittedAt": event.created_at,
            "producerNodeId": "api-1", "messageId": 7, "scheduledTaskId": "t-1", "redeliveryCount": 2,
            "metadata": {
                "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                "data": "a header must not replace the data", "Not A Name": "left out"
            }
        });
        assert_eq!(json, expected);
        assert_eq!(serde_json::from_value::<EventEnvelope>(json).unwrap(), envelope);
        let bare = serde_json::to_value(EventEnvelope::of("myapp", &Event::raw("a", json!(null)), None)).unwrap();
        assert_eq!(bare.as_object().unwrap().len(), 4, "{bare}");
    }

    #[test]
    fn metadata_keeps_its_types() {
        let mut event = Event::raw("a", json!(null));
        for (name, value) in
            [("of", "signup"), ("tries", "3"), ("metadata", r#"{"tries": 3, "first": true, "none": null}"#)]
        {
            event.headers.insert(name.into(), value.into());
        }
        let metadata =
            |event: &Event| serde_json::to_value(EventEnvelope::of("myapp", event, None)).unwrap()["metadata"].clone();
        assert_eq!(metadata(&event), json!({ "of": "signup", "tries": 3, "first": true, "none": null }));
        event.headers.insert("metadata".into(), "somebody else's".into());
        assert_eq!(metadata(&event), json!({ "of": "signup", "tries": "3" }));
    }

    /// Checks what the specification requires: context attributes of its types, and names of
    /// lower-case letters and digits.
    #[test]
    fn a_cloud_event_is_one() {
        let event = event();
        let json = serde_json::to_value(CloudEvent::of("myapp", &event)).unwrap();
        let members = json.as_object().unwrap();
        for required in ["specversion", "id", "source", "type"] {
            assert!(members[required].as_str().is_some_and(|text| !text.is_empty()), "{required}: {json}");
        }
        assert_eq!(json["specversion"], "1.0");
        assert_eq!(json["source"], "/myapp");
        assert_eq!((&json["type"], &json["subject"]), (&json!("user.created"), &json!("user-123")));
        assert!(chrono::DateTime::parse_from_rfc3339(json["time"].as_str().unwrap()).is_ok());
        assert_eq!(json["datacontenttype"], "application/json");
        assert_eq!(json["data"], json!({ "userId": "123" }));
        assert_eq!((&json["globalsequence"], &json["producernodeid"]), (&json!("7"), &json!("api-1")));
        assert!(json["traceparent"].as_str().unwrap().starts_with("00-"));
        for (name, value) in members {
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()), "{name}");
            assert!(name.len() <= 20, "{name}");
            assert!(name == "data" || matches!(value, Value::String(text) if !text.is_empty()), "{name}: {value}");
        }
    }
}
