//! Entry points that wait for, test, start, cancel and free requests.

use super::shims;
use crate::boundary::{MPI_Comm, MPI_Request, Out, OutList, Status};
use crate::fault::Fault;
use crate::message::anyone;
use crate::object::CommRef;
use crate::request::{Completion, with_error};
use crate::transport::Layer;
use crate::world::UNDEFINED;
use barewire::mpi::error::{Class, Error, Result};
use std::ffi::c_int;

shims! {
    fn PMPI_Wait(request: Out<MPI_Request>, status: Out<Status>) {
        let handle = request.get()?;
        if handle == MPI_Request::NULL {
            status.fill(&Status::EMPTY);
            return Ok(());
        }
        let anyone = anyone()?;
        if let Some(plain) = wait(&anyone, handle)? {
            request.put(MPI_Request::NULL)?;
            status.fill(&plain);
            return Ok(());
        }
        finish(complete(&anyone, handle)?, request, status)?
    }

    fn PMPI_Test(request: Out<MPI_Request>, flag: Out<c_int>, status: Out<Status>) {
        let handle = request.get()?;
        if handle == MPI_Request::NULL {
            status.fill(&Status::EMPTY);
            flag.put(1)?;
            return Ok(());
        }
        let anyone = anyone()?;
        check(&anyone, handle)?;
        let done = is_done(&anyone, handle)?;
        flag.put(done.into())?;
        if done {
            finish(complete(&anyone, handle)?, request, status)?
        }
    }

    fn PMPI_Waitall(count: c_int, array_of_requests: OutList<MPI_Request>, array_of_statuses: OutList<Status>) {
        let count = entries(count)?;
        let anyone = anyone()?;
        let mut failed = None;
        for i in 0..count {
            let request = array_of_requests.at(i);
            let handle = request.get()?;
            if handle != MPI_Request::NULL {
                if let Some(plain) = wait(&anyone, handle)? {
                    request.put(MPI_Request::NULL)?;
                    array_of_statuses.at(i).put_wanted(plain);
                    continue;
                }
            }
            collect(&anyone, handle, request, array_of_statuses.at(i), &mut failed)?;
        }
        in_status(failed)?
    }

    fn PMPI_Testall(count: c_int, array_of_requests: OutList<MPI_Request>, flag: Out<c_int>, array_of_statuses: OutList<Status>) {
        let count = entries(count)?;
        let anyone = anyone()?;
        anyone.net.poll()?;
        for i in 0..count {
            let handle = array_of_requests.at(i).get()?;
            if !anyone.net.with(|_, layer| layer.requests.is_done(&layer.tagged, handle.0))? {
                flag.put(0)?;
                return Ok(());
            }
        }
        flag.put(1)?;
        let mut failed = None;
        for i in 0..count {
            let request = array_of_requests.at(i);
            collect(&anyone, request.get()?, request, array_of_statuses.at(i), &mut failed)?;
        }
        in_status(failed)?
    }

    fn PMPI_Waitany(count: c_int, array_of_requests: OutList<MPI_Request>, indx: Out<c_int>, status: Out<Status>) {
        let handles = active(count, array_of_requests)?;
        let Some(i) = wait_any(&handles)? else {
            indx.put(UNDEFINED)?;
            status.fill(&Status::EMPTY);
            return Ok(());
        };
        indx.put(i as c_int)?;
        finish(complete(&anyone()?, array_of_requests.at(i).get()?)?, array_of_requests.at(i), status)?
    }

    fn PMPI_Testany(count: c_int, array_of_requests: OutList<MPI_Request>, indx: Out<c_int>, flag: Out<c_int>, status: Out<Status>) {
        let handles = active(count, array_of_requests)?;
        let done = test_some(&handles)?;
        flag.put((handles.is_empty() || !done.is_empty()).into())?;
        let Some(&i) = done.first() else {
            indx.put(UNDEFINED)?;
            status.fill(&Status::EMPTY);
            return Ok(());
        };
        indx.put(i as c_int)?;
        finish(complete(&anyone()?, array_of_requests.at(i).get()?)?, array_of_requests.at(i), status)?
    }

    fn PMPI_Waitsome(
        incount: c_int, array_of_requests: OutList<MPI_Request>, outcount: Out<c_int>, array_of_indices: OutList<c_int>,
        array_of_statuses: OutList<Status>,
    ) {
        let handles = active(incount, array_of_requests)?;
        if wait_any(&handles)?.is_none() {
            outcount.put(UNDEFINED)?;
            return Ok(());
        }
        some(&test_some(&handles)?, array_of_requests, outcount, array_of_indices, array_of_statuses)?
    }

    fn PMPI_Testsome(
        incount: c_int, array_of_requests: OutList<MPI_Request>, outcount: Out<c_int>, array_of_indices: OutList<c_int>,
        array_of_statuses: OutList<Status>,
    ) {
        let handles = active(incount, array_of_requests)?;
        if handles.is_empty() {
            outcount.put(UNDEFINED)?;
            return Ok(());
        }
        some(&test_some(&handles)?, array_of_requests, outcount, array_of_indices, array_of_statuses)?
    }

    fn PMPI_Request_get_status(request: MPI_Request, flag: Out<c_int>, status: Out<Status>) {
        if request == MPI_Request::NULL {
            status.fill(&Status::EMPTY);
            flag.put(1)?;
            return Ok(());
        }
        let anyone = anyone()?;
        check(&anyone, request)?;
        let done = is_done(&anyone, request)?;
        flag.put(done.into())?;
        if done {
            let outcome = anyone.net.with(|_, layer| layer.requests.settle(&mut layer.tagged, request.0))??;
            status.fill(&outcome.status);
        }
    }

    fn PMPI_Start(request: Out<MPI_Request>) {
        start(request.get()?)?
    }

    fn PMPI_Startall(count: c_int, array_of_requests: OutList<MPI_Request>) {
        for i in 0..entries(count)? {
            start(array_of_requests.at(i).get()?)?;
        }
    }

    fn PMPI_Cancel(request: Out<MPI_Request>) {
        let handle = request.get()?;
        anyone()?.net.with(|_, layer| layer.requests.cancel(&mut layer.tagged, handle.0))??
    }

    fn PMPI_Request_free(request: Out<MPI_Request>) {
        let handle = request.get()?;
        anyone()?.net.with(|_, layer| layer.requests.free(&mut layer.tagged, handle.0))??;
        request.put(MPI_Request::NULL)?
    }
}

/// Requests of an array that can end, with their places in it.
type Handles = Vec<(usize, MPI_Request)>;

fn entries(count: c_int) -> Result<usize> {
    usize::try_from(count).map_err(|_| Error::new(Class::Count, format!("an array has {count} entries")))
}

fn check(anyone: &CommRef, handle: MPI_Request) -> Result<()> {
    anyone.net.with(|_, layer| layer.requests.get(handle.0).map(|_| ()))?
}

fn is_done(anyone: &CommRef, handle: MPI_Request) -> Result<bool> {
    let done = || anyone.net.with(|_, layer| layer.requests.is_done(&layer.tagged, handle.0));
    if done()? {
        return Ok(true);
    }
    anyone.net.poll()?;
    done()
}

/// Waits for a request. The usual one is then forgotten and this is its status; any other is to be completed.
#[inline]
fn wait(anyone: &CommRef, handle: MPI_Request) -> Result<Option<Status>> {
    let done = |layer: &mut Layer| layer.requests.is_done(&layer.tagged, handle.0);
    let plain = |layer: &mut Layer| layer.requests.complete_plainly(&mut layer.tagged, handle.0);
    anyone.net.wait_then("a request", done, plain)
}

#[inline]
fn complete(anyone: &CommRef, handle: MPI_Request) -> Result<Completion> {
    anyone.net.with(|_, layer| layer.requests.complete(&mut layer.tagged, handle.0))?
}

/// Tells the program of one request that has ended.
#[inline]
fn finish(done: Completion, request: Out<MPI_Request>, status: Out<Status>) -> Result<(), Fault> {
    if !done.stays {
        request.put(MPI_Request::NULL)?;
    }
    status.fill(&done.outcome.status);
    match done.outcome.error {
        Some(error) => Err(Fault::Of(done.comm, error)),
        None => Ok(()),
    }
}

/// Tells the program of one of several requests that have ended; notes whose communicator had a failure.
fn collect(
    anyone: &CommRef,
    handle: MPI_Request,
    request: Out<MPI_Request>,
    status: Out<Status>,
    failed: &mut Option<MPI_Comm>,
) -> Result<()> {
    if handle == MPI_Request::NULL {
        status.put_wanted(Status::EMPTY);
        return Ok(());
    }
    let done = complete(anyone, handle)?;
    if !done.stays {
        request.put(MPI_Request::NULL)?;
    }
    status.put_wanted(with_error(&done.outcome));
    if done.outcome.error.is_some() && failed.is_none() {
        *failed = Some(done.comm);
    }
    Ok(())
}

fn in_status(failed: Option<MPI_Comm>) -> Result<(), Fault> {
    match failed {
        Some(comm) => {
            Err(Fault::Of(comm, Error::new(Class::InStatus, "a request failed; its status says how")))
        }
        None => Ok(()),
    }
}

/// The requests of an array that are neither null nor waiting to be started.
fn active(count: c_int, requests: OutList<MPI_Request>) -> Result<Handles> {
    let all = requests.to_vec(count.into())?;
    let anyone = anyone()?;
    let mut active = Vec::new();
    for (i, handle) in all.into_iter().enumerate().filter(|(_, handle)| *handle != MPI_Request::NULL) {
        check(&anyone, handle)?;
        if anyone.net.with(|_, layer| layer.requests.is_active(handle.0))? {
            active.push((i, handle));
        }
    }
    Ok(active)
}

/// Waits until one has ended; none if there is none to wait for.
fn wait_any(handles: &Handles) -> Result<Option<usize>> {
    if handles.is_empty() {
        return Ok(None);
    }
    let mut found = None;
    anyone()?.net.wait("one of several requests", |layer| {
        found = handles
            .iter()
            .find(|(_, handle)| layer.requests.is_done(&layer.tagged, handle.0))
            .map(|(i, _)| *i);
        found.is_some()
    })?;
    Ok(found)
}

/// The places of those that have ended.
fn test_some(handles: &Handles) -> Result<Vec<usize>> {
    let anyone = anyone()?;
    anyone.net.poll()?;
    anyone.net.with(|_, layer| {
        let done = handles.iter().filter(|(_, handle)| layer.requests.is_done(&layer.tagged, handle.0));
        done.map(|(i, _)| *i).collect()
    })
}

fn some(
    done: &[usize],
    requests: OutList<MPI_Request>,
    outcount: Out<c_int>,
    indices: OutList<c_int>,
    statuses: OutList<Status>,
) -> Result<(), Fault> {
    let anyone = anyone()?;
    outcount.put(done.len() as c_int)?;
    let mut failed = None;
    for (n, &i) in done.iter().enumerate() {
        indices.at(n).put(i as c_int)?;
        collect(&anyone, requests.at(i).get()?, requests.at(i), statuses.at(n), &mut failed)?;
    }
    in_status(failed)
}

fn start(handle: MPI_Request) -> Result<()> {
    anyone()?.net.with(|endpoint, layer| layer.requests.start(endpoint, &mut layer.tagged, handle.0))?
}
