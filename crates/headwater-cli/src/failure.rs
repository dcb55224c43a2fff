//! Failures of commands: an exit code for scripts, and for people what is wrong and what to do.

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

use headwater::admin::{AdminError, ImportError, TransferError};
use headwater::delivery::SubscriberError;
use headwater::log::{AppendError, Fault, FollowError, JsonError, ReadError};
use headwater::schedule::ScheduleError;
#[cfg(feature = "up")]
use headwater_embedded::EmbeddedError;

/// The exit codes, as `headwater --help` lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    Done = 0,
    Unexpected = 1,
    Invalid = 2,
    Unreachable = 3,
    NotFound = 4,
    Conflict = 5,
    Schema = 6,
    Findings = 7,
    Interrupted = 130,
}

#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
    /// The error's code, which is also the name of its page in `docs/errors/`.
    code: Option<&'static str>,
    help: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Display) -> Self {
        Failure { exit, message: message.to_string(), code: None, help: None }
    }

    pub(crate) fn unexpected(message: impl Display) -> Self {
        Failure::new(Exit::Unexpected, message)
    }

    pub(crate) fn invalid(message: impl Display) -> Self {
        Failure::new(Exit::Invalid, message)
    }

    pub(crate) fn interrupted() -> Self {
        Failure::new(Exit::Interrupted, "interrupted")
    }

    /// Sets what the user can do about the failure. Replaces what was set before.
    pub(crate) fn help(mut self, help: impl Display) -> Self {
        self.help = Some(help.to_string());
        self
    }

    /// Puts the place of the failure in front of the message.
    pub(crate) fn at(mut self, place: impl Display) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }

    #[cfg(test)]
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    fn code(mut self, code: Option<&'static str>) -> Self {
        self.code = code;
        self
    }

    fn is_namespace_not_found(&self) -> bool {
        self.code == Some("WH001")
    }

    /// Prints the failure. Prints nothing for [`Exit::Done`]: the reader has closed our pipe.
    pub(crate) fn report(self) -> ExitCode {
        if self.exit != Exit::Done {
            let code = self.code.map(|code| format!(" [{code}]")).unwrap_or_default();
            eprintln!("error: {}{code}", self.message);
            if let Some(help) = self.help {
                eprintln!("help: {help}");
            }
        }
        ExitCode::from(self.exit as u8)
    }
}

/// Turns a failed write to standard output into a failure. A reader that has read enough (`| head`)
/// is not an error.
pub(crate) fn output_failed(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::new(Exit::Done, "the output was closed"),
        _ => Failure::unexpected(format!("failed to write to standard output: {error}")),
    }
}

/// Returns `None` if the namespace does not exist. A command that shows all namespaces goes on
/// without one that was dropped or renamed after they were listed.
pub(crate) fn unless_gone<T, E: Into<Failure>>(result: Result<T, E>) -> Result<Option<T>, Failure> {
    match result.map_err(Into::into) {
        Err(failure) if failure.is_namespace_not_found() => Ok(None),
        result => result.map(Some),
    }
}

fn namespace_not_found(name: &str) -> Failure {
    Failure::new(Exit::NotFound, format!("namespace {name:?} does not exist"))
        .help(format!("create it with `headwater namespace create {name}`"))
}

fn fault(what: &str, fault: &Fault) -> Failure {
    let exit = if fault.retryable { Exit::Unreachable } else { Exit::Unexpected };
    Failure::new(exit, format!("{what}{}", fault.message))
}

impl From<AdminError> for Failure {
    fn from(error: AdminError) -> Self {
        let code = error.code();
        let failure = match &error {
            AdminError::NamespaceNotFound(name) => namespace_not_found(name),
            AdminError::NotGranted(message) => Failure::unexpected(message),
            AdminError::InvalidInput(message) => Failure::invalid(message),
            AdminError::NamespaceDiffers(name) => {
                Failure::invalid(format!("namespace {name:?} exists with other settings")).help(format!(
                    "see them with `headwater namespace show {name}`, change them with `headwater namespace set {name}`"
                ))
            }
            AdminError::DatabaseTooNew { database, known } => Failure::new(
                Exit::Schema,
                format!("the database is at schema version {database}, this headwater knows up to {known}"),
            )
            .help("use a newer headwater"),
            AdminError::MigrationChanged { .. } => Failure::new(Exit::Schema, &error),
            AdminError::NotMigrated { database: 0, .. } => {
                Failure::new(Exit::Schema, "the database has no Headwater in it yet").help("run `headwater migrate`")
            }
            AdminError::NotMigrated { database, needed } => Failure::new(
                Exit::Schema,
                format!("the database is at schema version {database}, this headwater needs {needed}"),
            )
            .help("run `headwater migrate`"),
            AdminError::MonthHeld(message) => Failure::new(Exit::Conflict, message),
            AdminError::NamespaceInUse(message) => Failure::new(Exit::Conflict, message)
                .help("stop the programs that use it, or give --force: they fail until they use the new name"),
            AdminError::NamespaceHeld(message) => Failure::new(Exit::Conflict, message)
                .help("run the command again when they have ended: it goes on where it stopped"),
            AdminError::NoPartman(message) => Failure::invalid(message),
            AdminError::Unavailable(unavailable) => fault("", unavailable),
            _ => Failure::unexpected(&error),
        };
        failure.code(code)
    }
}

impl From<TransferError> for Failure {
    fn from(error: TransferError) -> Self {
        match error {
            TransferError::Database(error) => error.into(),
            error => Failure::unexpected(error),
        }
    }
}

impl From<AppendError> for Failure {
    fn from(error: AppendError) -> Self {
        let code = error.code();
        let failure = match &error {
            AppendError::NamespaceNotFound(name) => namespace_not_found(name),
            AppendError::NotGranted(message) => Failure::unexpected(message),
            AppendError::InvalidInput(message) => Failure::invalid(message),
            AppendError::PayloadTooLarge { .. } => Failure::invalid(&error)
                .help("keep large data elsewhere and refer to it, or allow more with `headwater namespace set`"),
            AppendError::IdReused { .. } => Failure::invalid(&error),
            AppendError::Conflict { stream_id, expected, actual } => Failure::new(
                Exit::Conflict,
                format!("stream {:?} is at version {actual}, expected {expected}", stream_id.as_str()),
            )
            .help("read the stream again, decide again, append again"),
            AppendError::Unavailable(unavailable) => fault("failed to append: ", unavailable).help(
                "the events may be stored all the same: append them again with the same ids, nothing is stored twice",
            ),
            _ => Failure::unexpected(&error),
        };
        failure.code(code)
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        let code = error.code();
        let failure = match &error {
            ReadError::NamespaceNotFound(name) => namespace_not_found(name),
            ReadError::NotGranted(message) => Failure::unexpected(message),
            ReadError::InvalidInput(message) => Failure::invalid(message),
            ReadError::Unavailable(unavailable) => fault("failed to read: ", unavailable),
            _ => Failure::unexpected(&error),
        };
        failure.code(code)
    }
}

impl From<FollowError> for Failure {
    fn from(error: FollowError) -> Self {
        let code = error.code();
        let failure = match error {
            FollowError::Read(error) => return error.into(),
            FollowError::Trimmed { resume_after, .. } => Failure::new(Exit::NotFound, &error)
                .help(format!("go on without them: `headwater read --follow --after {resume_after}`")),
            FollowError::OtherHistory { .. } => Failure::new(Exit::Conflict, &error)
                .help("see what the log has now, and choose where to begin with --after"),
            error => Failure::unexpected(error),
        };
        failure.code(code)
    }
}

impl From<SubscriberError> for Failure {
    fn from(error: SubscriberError) -> Self {
        let code = error.code();
        let failure = match error {
            SubscriberError::Read(error) => return error.into(),
            SubscriberError::NamespaceNotFound(name) => namespace_not_found(&name),
            SubscriberError::NotGranted(message) => Failure::unexpected(message),
            SubscriberError::InvalidInput(message) => Failure::invalid(message),
            SubscriberError::NotFound(id) => Failure::new(Exit::NotFound, format!("subscriber {id:?} does not exist"))
                .help("list the subscribers with `headwater subscribers list --namespace NAME`"),
            SubscriberError::InUse(message) => Failure::new(Exit::Conflict, message),
            SubscriberError::Unavailable(unavailable) => fault("", &unavailable),
            error => Failure::unexpected(error),
        };
        failure.code(code)
    }
}

impl From<ScheduleError> for Failure {
    fn from(error: ScheduleError) -> Self {
        let code = error.code();
        let failure = match &error {
            ScheduleError::NamespaceNotFound(name) => namespace_not_found(name),
            ScheduleError::InvalidInput(message) | ScheduleError::PgCronUnavailable(message) => {
                Failure::invalid(message)
            }
            ScheduleError::PayloadTooLarge { .. } => Failure::invalid(&error)
                .help("keep large data elsewhere and refer to it, or allow more with `headwater namespace set`"),
            ScheduleError::NotFound(name) => Failure::new(Exit::NotFound, format!("schedule {name:?} does not exist"))
                .help("list the schedules with `headwater schedules list --namespace NAME`"),
            ScheduleError::NotGranted(message) => Failure::unexpected(message),
            ScheduleError::Unavailable(unavailable) => fault("", unavailable),
            _ => Failure::unexpected(&error),
        };
        failure.code(code)
    }
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::Invalid(message) => Failure::invalid(message).code(Some("WH002")),
            ImportError::Source(error) => Failure::from(error).at("failed to read the source"),
            ImportError::Target(error) => error.into(),
            ImportError::Append { first, source } => {
                Failure::from(source).at(format!("the batch that begins with row {first:?} of the source"))
            }
            ImportError::Row { .. } => Failure::invalid(error),
            ImportError::Differs(_) => Failure::new(Exit::Conflict, error).help("choose another name with --name"),
            ImportError::Busy(_) => Failure::new(Exit::Conflict, error),
            ImportError::Followed(_) => Failure::new(Exit::Conflict, error)
                .help("go on with --follow, end it with --finish, or --stop-following"),
            ImportError::FollowEnded(_) => Failure::new(Exit::Conflict, error).help("choose another name with --name"),
            ImportError::MayNotFollow { .. } => Failure::unexpected(error),
            ImportError::TriggerGone { .. } => {
                Failure::new(Exit::Findings, error).help("remove what is left of it with --stop-following")
            }
            ImportError::Mismatch { .. } => Failure::new(Exit::Findings, error)
                .help("stop all writers of the source, and import it again under another --name"),
            error => Failure::unexpected(error),
        }
    }
}

#[cfg(feature = "up")]
impl From<EmbeddedError> for Failure {
    fn from(error: EmbeddedError) -> Self {
        let failure = Failure::unexpected(&error);
        match &error {
            EmbeddedError::PortTaken { port } => {
                Failure::unexpected(format!("port {port} is taken by another program"))
                    .help("choose another one with --port, or any that is free with --port 0")
            }
            EmbeddedError::Io { .. } => failure.help("choose another folder with --data-dir or HEADWATER_DATA"),
            _ => failure,
        }
    }
}

impl From<JsonError> for Failure {
    fn from(error: JsonError) -> Self {
        Failure::invalid(error)
    }
}
