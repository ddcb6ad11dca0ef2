//! The world: everything a process knows about MPI between loading the library and its end.
//!
//! Objects live in handle tables. What exists before `MPI_Init` (datatypes, infos, errors, keys) is made when first asked for; the
//! communicators appear when a [`Job`] starts and go when it ends.

use crate::attribute::{AttributeCallbacks, Value};
use crate::boundary::{self, MPI_Comm, MPI_Datatype, MPI_Errhandler, MPI_Group, MPI_Info, MPI_Op, Standing};
use crate::fault::Errhandler;
use crate::object::{Comm, CommRef, F90Key, Session, TypeObject, TypeRef, UserOp};
use crate::rma::Window;
use crate::table::{DYNAMIC, Table};
use crate::transport::Net;
use barewire::mpi::attr::Keyvals;
use barewire::mpi::datatype::Basic;
use barewire::mpi::error::{Class, Codes, Error, Result};
use barewire::mpi::group::{Group, Process};
use barewire::mpi::info::Info;
use barewire::mpi::op::Builtin;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, Once, OnceLock, PoisonError, RwLock};
use std::thread::ThreadId;
use std::time::Instant;

/// The one world of this process.
pub(crate) fn world() -> &'static World {
    static WORLD: LazyLock<World> = LazyLock::new(World::new);
    &WORLD
}

/// The communicators that are there as long as the job runs, while that runs.
static LASTING: Standing<[Arc<Comm>; 2]> = Standing::nowhere();

/// A communicator, if it is one of those that are there as long as the job runs, and that runs.
#[inline(always)]
pub(crate) fn lasting(handle: MPI_Comm) -> Option<&'static Arc<Comm>> {
    LASTING.get()?.get(handle.0.wrapping_sub(0x101))
}

/// All state of the library.
pub(crate) struct World {
    /// Communicators made by the program.
    pub comms: Table<Comm>,
    /// Datatypes made by the program.
    pub types: Table<TypeObject>,
    /// Groups.
    pub groups: Table<Group>,
    /// Infos.
    pub infos: Table<Mutex<Info>>,
    /// Operations made by the program.
    pub ops: Table<UserOp>,
    /// Error handlers made by the program.
    pub errhandlers: Table<Errhandler>,
    /// Sessions.
    pub sessions: Table<Session>,
    /// Windows.
    pub wins: Table<Window>,
    /// Attribute keys.
    pub keyvals: Mutex<Keyvals<AttributeCallbacks>>,
    /// Error classes and codes.
    pub codes: Mutex<Codes>,
    /// Fortran types by precision and range: the same request gets the same handle.
    pub f90_types: Mutex<HashMap<F90Key, usize>>,
    /// When the library was loaded, or first used.
    pub start: Instant,
    /// What `MPI_INFO_ENV` holds.
    pub environment: Info,
    /// The values of the predefined attributes; programs get their addresses.
    pub predefined: Predefined,
    basics: Vec<TypeObject>,
    file_errhandler: Mutex<Arc<Errhandler>>,
    job: RwLock<Phase>,
    users: Mutex<Users>,
    /// `MPI_COMM_WORLD` and `MPI_COMM_SELF`, once there were some.
    lasting: OnceLock<[Arc<Comm>; 2]>,
}

/// Where a process is between start and end.
enum Phase {
    Before,
    Running(Arc<Job>),
    /// All sessions have ended. The connection stays for those that come, and is left when the process exits: only then is it sure
    /// that there will be none, here and at the others, who need not have as many.
    Between(Arc<Job>),
    After,
}

/// What a job is kept running for.
#[derive(Default)]
struct Users {
    /// The program called `MPI_Init`.
    initialized: bool,
    /// It called `MPI_Finalize`.
    finalized: bool,
    /// Sessions it has not ended.
    sessions: usize,
}

/// A running job.
pub(crate) struct Job {
    /// The way to the other processes.
    pub net: Arc<Net>,
    /// The level of thread support the program was given.
    pub thread_level: i32,
    /// The thread that started it.
    pub main: ThreadId,
}

/// Attributes every communicator of the job answers for.
#[derive(Debug)]
pub(crate) struct Predefined {
    /// The largest tag.
    pub tag_ub: Value,
    /// Which ranks may do input and output: any.
    pub io: Value,
    /// The host process: none.
    pub host: Value,
    /// Whether clocks agree.
    pub wtime_is_global: Value,
    /// The highest error code in use.
    pub last_used_code: Value,
    /// Processes the job could have.
    pub universe_size: Value,
}

/// The first number of the program's own attribute keys; predefined ones are below.
const FIRST_KEYVAL: i32 = 1 << 16;
/// The largest tag the library takes.
pub(crate) const TAG_UB: i32 = (1 << 30) - 1;

impl World {
    fn new() -> World {
        World {
            comms: Table::new(1),
            types: Table::new(2),
            groups: Table::new(3),
            infos: Table::new(4),
            ops: Table::new(5),
            errhandlers: Table::new(6),
            sessions: Table::new(7),
            wins: Table::new(10),
            keyvals: Mutex::new(Keyvals::new(FIRST_KEYVAL)),
            codes: Mutex::new(Codes::new()),
            f90_types: Mutex::new(HashMap::new()),
            start: Instant::now(),
            environment: crate::shim::info::environment(),
            predefined: Predefined {
                tag_ub: Value::integer(TAG_UB.into()),
                io: Value::integer(ANY_SOURCE.into()),
                host: Value::integer(PROC_NULL.into()),
                wtime_is_global: Value::integer(0),
                last_used_code: Value::integer(Codes::new().last_used().into()),
                universe_size: Value::integer(1),
            },
            basics: Basic::all().map(|basic| TypeObject::named(basic.into(), basic.name())).collect(),
            file_errhandler: Mutex::new(Arc::new(Errhandler::Return)),
            job: RwLock::new(Phase::Before),
            users: Mutex::new(Users::default()),
            lasting: OnceLock::new(),
        }
    }

    /// `MPI_Init`: starts the job, or joins the one that a session started. Gives the level of thread support there is.
    pub fn begin(&'static self, thread_level: i32) -> Result<i32> {
        let mut users = lock(&self.users);
        if users.initialized {
            let what = if users.finalized { "after MPI_Finalize" } else { "twice" };
            return Err(Error::new(Class::Other, format!("MPI_Init was called {what}")));
        }
        let level = self.start(thread_level)?;
        users.initialized = true;
        Ok(level)
    }

    /// `MPI_Session_init`: starts the job unless it runs.
    pub fn begin_session(&'static self, thread_level: i32) -> Result<()> {
        let mut users = lock(&self.users);
        self.start(thread_level)?;
        users.sessions += 1;
        Ok(())
    }

    /// `MPI_Finalize`: ends the job unless there are sessions.
    pub fn end(&'static self) -> Result<()> {
        self.job()?;
        let mut users = lock(&self.users);
        if !users.initialized || users.finalized {
            let what =
                if users.finalized { "MPI_Finalize has been called" } else { "MPI_Init has not been called" };
            return Err(Error::new(Class::Other, what));
        }
        users.finalized = true;
        self.stop_unless_used(&users)
    }

    /// `MPI_Session_finalize`: the last one ends a job after `MPI_Finalize`, and lets it rest where `MPI_Init` may come yet.
    pub fn end_session(&'static self) -> Result<()> {
        let mut users = lock(&self.users);
        users.sessions = users.sessions.saturating_sub(1);
        if users.sessions == 0 && !users.initialized { self.rest() } else { self.stop_unless_used(&users) }
    }

    /// Starts the job: the communicators appear.
    fn start(&'static self, thread_level: i32) -> Result<i32> {
        let mut phase = self.job.write().unwrap_or_else(PoisonError::into_inner);
        let main = std::thread::current().id();
        match &*phase {
            Phase::Before => {}
            Phase::Running(job) => return Ok(job.thread_level),
            Phase::Between(rested) => {
                let thread_level = rested.thread_level;
                let job = Job { net: rested.net.clone(), thread_level, main };
                LASTING.set(self.lasting.get());
                *phase = Phase::Running(Arc::new(job));
                return Ok(thread_level);
            }
            Phase::After => {
                return Err(Error::new(Class::Other, "the job has ended: MPI_Finalize was called"));
            }
        }
        let net = Arc::new(Net::open(thread_level == THREAD_MULTIPLE)?);
        self.predefined.universe_size.store(net.size as i64);
        let all = Comm::new(&net, 0, Group::first(net.size), net.rank as usize);
        all.set_name(b"MPI_COMM_WORLD");
        let own = Comm::new(&net, 1, Group::new([Process(net.rank)])?, 0);
        own.set_name(b"MPI_COMM_SELF");
        LASTING.set(Some(self.lasting.get_or_init(|| [Arc::new(all), Arc::new(own)])));
        let job = Job { net, thread_level, main };
        *phase = Phase::Running(Arc::new(job));
        Ok(thread_level)
    }

    /// Lets the job rest until another session begins, or `MPI_Init` is called, or the process exits.
    fn rest(&'static self) -> Result<()> {
        let job = self.job()?;
        job.net.finish_left_behind()?;
        LASTING.set(None);
        *self.job.write().unwrap_or_else(PoisonError::into_inner) = Phase::Between(job);
        CommRef::forget_all();
        // Where there is no room for it, the process goes without a word.
        static AT_EXIT: Once = Once::new();
        AT_EXIT.call_once(|| boundary::at_exit(leave));
        Ok(())
    }

    /// Leaves the other processes and ends the job.
    fn stop_unless_used(&'static self, users: &Users) -> Result<()> {
        if users.sessions > 0 || users.initialized != users.finalized {
            return Ok(());
        }
        self.job()?.net.finalize(&*self.comm(MPI_Comm(0x101))?)?;
        LASTING.set(None);
        *self.job.write().unwrap_or_else(PoisonError::into_inner) = Phase::After;
        CommRef::forget_all();
        Ok(())
    }

    /// Whether `MPI_Init` has been called.
    pub fn initialized(&self) -> bool {
        lock(&self.users).initialized
    }

    /// Whether `MPI_Finalize` has been called.
    pub fn finalized(&self) -> bool {
        lock(&self.users).finalized
    }

    /// The running job.
    pub fn job(&self) -> Result<Arc<Job>> {
        match &*self.job.read().unwrap_or_else(PoisonError::into_inner) {
            Phase::Running(job) => Ok(job.clone()),
            Phase::Before => Err(Error::new(Class::Other, "MPI_Init has not been called")),
            Phase::Between(_) => Err(Error::new(Class::Other, "all sessions have ended")),
            Phase::After => Err(Error::new(Class::Other, "MPI_Finalize has been called")),
        }
    }

    /// This process's number in the job, while there is one.
    pub fn rank_in_job(&self) -> Option<u32> {
        self.job().ok().map(|job| job.net.rank)
    }

    /// Ends every process of the job.
    pub fn abort(&self, code: i32, why: &str) -> ! {
        match self.leave_rest().map_or_else(|| self.job(), Ok) {
            Ok(job) => job.net.abort(code, why),
            Err(_) => std::process::exit(code),
        }
    }

    /// The job, if it rests; nobody else gets it then.
    fn leave_rest(&self) -> Option<Arc<Job>> {
        // Whoever holds the lock is starting or ending something, and is not resting.
        let mut phase = self.job.try_write().ok()?;
        match std::mem::replace(&mut *phase, Phase::After) {
            Phase::Between(job) => Some(job),
            other => {
                *phase = other;
                None
            }
        }
    }

    /// A communicator.
    #[inline]
    pub fn comm(&'static self, handle: MPI_Comm) -> Result<CommRef> {
        match lasting(handle) {
            Some(lasting) => Ok(CommRef::Lasting(lasting)),
            None => self.other_comm(handle),
        }
    }

    fn other_comm(&self, handle: MPI_Comm) -> Result<CommRef> {
        if let Some(recent) = CommRef::recent(handle) {
            return Ok(recent);
        }
        // Those that are lasting are found elsewhere while the job runs; why it does not is the answer.
        if let 0x101 | 0x102 = handle.0 {
            self.job()?;
        }
        let found = self.comms.get(handle.0);
        let comm = found.ok_or_else(|| bad(Class::Comm, "MPI_COMM_NULL", handle.0, 0x100))?;
        Ok(CommRef::remember(handle, comm))
    }

    /// Frees the handle of a communicator the program made.
    pub fn free_comm(&self, handle: MPI_Comm) {
        self.comms.release(handle.0);
        CommRef::forget_all();
    }

    /// A predefined datatype.
    pub fn basic(&self, basic: Basic) -> TypeRef {
        TypeRef::Basic(&world().basics[basic.index()])
    }

    /// A datatype.
    pub fn datatype(&self, handle: MPI_Datatype) -> Result<TypeRef> {
        if let Some(basic) = Basic::from_handle(handle.0) {
            return Ok(self.basic(basic));
        }
        let found = self.types.get(handle.0);
        found.map(TypeRef::Derived).ok_or_else(|| bad(Class::Type, "MPI_DATATYPE_NULL", handle.0, 0x200))
    }

    /// A group.
    pub fn group(&self, handle: MPI_Group) -> Result<Group> {
        if handle.0 == 0x109 {
            return Ok(Group::empty());
        }
        let found = self.groups.get(handle.0);
        found
            .map(|group| (*group).clone())
            .ok_or_else(|| bad(Class::Group, "MPI_GROUP_NULL", handle.0, 0x108))
    }

    /// An info made by the program.
    pub fn info(&self, handle: MPI_Info) -> Result<Arc<Mutex<Info>>> {
        if handle.0 == 0x131 {
            return Err(Error::new(Class::Info, "MPI_INFO_ENV cannot be changed"));
        }
        self.infos.get(handle.0).ok_or_else(|| bad(Class::Info, "MPI_INFO_NULL", handle.0, 0x130))
    }

    /// What an info holds; null holds nothing.
    pub fn hints(&self, handle: MPI_Info) -> Result<Info> {
        match handle.0 {
            0x130 => Ok(Info::new()),
            0x131 => Ok(self.environment.clone()),
            _ => Ok(lock(&*self.info(handle)?).clone()),
        }
    }

    /// An error handler.
    pub fn errhandler(&self, handle: MPI_Errhandler) -> Result<Arc<Errhandler>> {
        match handle.0 {
            0x141 => Ok(Arc::new(Errhandler::Fatal)),
            0x142 => Ok(Arc::new(Errhandler::Abort)),
            0x143 => Ok(Arc::new(Errhandler::Return)),
            other => self
                .errhandlers
                .get(other)
                .ok_or_else(|| bad(Class::Errhandler, "MPI_ERRHANDLER_NULL", other, 0x140)),
        }
    }

    /// A handle of an error handler, for a program that asks for it.
    pub fn errhandler_handle(&self, errhandler: &Arc<Errhandler>) -> MPI_Errhandler {
        MPI_Errhandler(match **errhandler {
            Errhandler::Fatal => 0x141,
            Errhandler::Abort => 0x142,
            Errhandler::Return => 0x143,
            Errhandler::User(_) => self.errhandlers.share(errhandler),
        })
    }

    /// A predefined operation, or the program's own.
    pub fn op(&self, handle: MPI_Op) -> Result<std::result::Result<Builtin, Arc<UserOp>>> {
        if handle.0 < DYNAMIC {
            let builtin = Builtin::from_handle(handle.0);
            return builtin.map(Ok).ok_or_else(|| bad(Class::Op, "MPI_OP_NULL", handle.0, 0x20));
        }
        self.ops.get(handle.0).map(Err).ok_or_else(|| bad(Class::Op, "MPI_OP_NULL", handle.0, 0x20))
    }

    /// The error handler of files that are not open.
    pub fn file_errhandler(&self) -> Arc<Errhandler> {
        lock(&self.file_errhandler).clone()
    }

    /// Sets the error handler of files that are not open.
    pub fn set_file_errhandler(&self, errhandler: Arc<Errhandler>) {
        *lock(&self.file_errhandler) = errhandler;
    }

    /// What a code means; empty if nobody knows.
    pub fn error_string(&self, code: i32) -> String {
        lock(&self.codes).string(code).unwrap_or_default().to_owned()
    }
}

/// Leaves the other processes when the process exits after its last session, as `MPI_Finalize` does.
extern "C" fn leave() {
    // A panic cannot go further than this, and there is nobody to tell an error to.
    let _ = std::panic::catch_unwind(|| {
        let world = world();
        let (job, all) = (world.leave_rest()?, world.lasting.get()?);
        job.net.finalize(&all[0]).ok()
    });
}

/// Locks; a panic in another thread leaves nothing half done that matters here.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The error for a handle that names nothing.
#[cold]
pub(crate) fn bad(class: Class, null_name: &'static str, handle: usize, null: usize) -> Error {
    if handle == null {
        Error::new(class, format!("the handle is {null_name}"))
    } else {
        Error::new(
            class,
            format!("the handle {handle:#x} was freed, or never given out, or is of another kind"),
        )
    }
}

/// The standard's `MPI_THREAD_MULTIPLE`.
pub(crate) const THREAD_MULTIPLE: i32 = 4096;
/// The standard's `MPI_ANY_TAG`.
pub(crate) const ANY_TAG: i32 = -2;
/// The standard's `MPI_ANY_SOURCE`.
pub(crate) const ANY_SOURCE: i32 = -1;
/// The standard's `MPI_PROC_NULL`.
pub(crate) const PROC_NULL: i32 = -3;
/// The standard's `MPI_UNDEFINED`.
pub(crate) const UNDEFINED: i32 = -32766;
