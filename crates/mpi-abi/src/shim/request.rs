//! Entry points that wait for, test, start, cancel and free requests.

use super::shims;
use crate::boundary::{Callback, List, MPI_Comm, MPI_Request, Memory, Out, OutList, Status};
use crate::fault::Fault;
use crate::general::General;
use crate::message::{Outcome, anyone};
use crate::object::CommRef;
use crate::request::{Completion, with_error};
use crate::transport::Layer;
use crate::world::UNDEFINED;
use barewire::mpi::error::{Class, Error, Result};
use std::ffi::c_int;
use std::ops::Range;

shims! {
    fn PMPI_Wait(request: Out<MPI_Request>, status: Out<Status>) {
        let handle = request.get()?;
        if handle == MPI_Request::NULL {
            status.put_wanted(Status::EMPTY);
            return Ok(());
        }
        let anyone = anyone()?;
        let at_once = anyone.net.with(|endpoint, layer| {
            endpoint.flush();
            layer.requests.complete_plainly(&mut layer.tagged, handle.0)
        })?;
        if let Some(plain) = at_once.map_or_else(|| wait(&anyone, handle), |plain| Ok(Some(plain)))? {
            request.put(MPI_Request::NULL)?;
            status.fill(&plain);
            return Ok(());
        }
        finish(complete(&anyone, handle)?, request, status)?
    }

    fn PMPI_Test(request: Out<MPI_Request>, flag: Out<c_int>, status: Out<Status>) {
        let handle = request.get()?;
        if handle == MPI_Request::NULL {
            status.put_wanted(Status::EMPTY);
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
        let mut next = 0;
        loop {
            next = collect_plain(&anyone, next..count, array_of_requests, array_of_statuses)?;
            if next == count {
                break;
            }
            let (request, status) = (array_of_requests.at(next), array_of_statuses.at(next));
            let handle = request.get()?;
            match wait(&anyone, handle)? {
                Some(plain) => {
                    request.put(MPI_Request::NULL)?;
                    status.put_wanted(plain);
                }
                None => collect(&anyone, handle, request, status, &mut failed)?,
            }
            next += 1;
        }
        in_status(failed)?
    }

    fn PMPI_Testall(count: c_int, array_of_requests: OutList<MPI_Request>, flag: Out<c_int>, array_of_statuses: OutList<Status>) {
        let count = entries(count)?;
        let anyone = anyone()?;
        let handles = array_of_requests.to_vec(count as i64)?;
        let done = |layer: &Layer| handles.iter().all(|handle| layer.requests.is_done(&layer.tagged, handle.0));
        anyone.net.poll_until(done)?;
        if !anyone.net.with(|_, layer| done(layer))? {
            flag.put(0)?;
            return Ok(());
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
        let handles = active(&array_of_requests.to_vec(count.into())?)?;
        let Some(i) = wait_any(&handles)? else {
            indx.put(UNDEFINED)?;
            status.put_wanted(Status::EMPTY);
            return Ok(());
        };
        indx.put(i as c_int)?;
        finish(complete(&anyone()?, array_of_requests.at(i).get()?)?, array_of_requests.at(i), status)?
    }

    fn PMPI_Testany(count: c_int, array_of_requests: OutList<MPI_Request>, indx: Out<c_int>, flag: Out<c_int>, status: Out<Status>) {
        let handles = active(&array_of_requests.to_vec(count.into())?)?;
        let done = test_some(&handles)?;
        flag.put((handles.is_empty() || !done.is_empty()).into())?;
        let Some(&i) = done.first() else {
            indx.put(UNDEFINED)?;
            status.put_wanted(Status::EMPTY);
            return Ok(());
        };
        indx.put(i as c_int)?;
        finish(complete(&anyone()?, array_of_requests.at(i).get()?)?, array_of_requests.at(i), status)?
    }

    fn PMPI_Waitsome(
        incount: c_int, array_of_requests: OutList<MPI_Request>, outcount: Out<c_int>, array_of_indices: OutList<c_int>,
        array_of_statuses: OutList<Status>,
    ) {
        let handles = active(&array_of_requests.to_vec(incount.into())?)?;
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
        let handles = active(&array_of_requests.to_vec(incount.into())?)?;
        if handles.is_empty() {
            outcount.put(UNDEFINED)?;
            return Ok(());
        }
        some(&test_some(&handles)?, array_of_requests, outcount, array_of_indices, array_of_statuses)?
    }

    fn PMPI_Request_get_status(request: MPI_Request, flag: Out<c_int>, status: Out<Status>) {
        if request == MPI_Request::NULL {
            status.put_wanted(Status::EMPTY);
            flag.put(1)?;
            return Ok(());
        }
        let anyone = anyone()?;
        check(&anyone, request)?;
        let done = is_done(&anyone, request)?;
        flag.put(done.into())?;
        if done {
            status.fill(&look(&anyone, request)?.status);
        }
    }

    fn PMPI_Request_get_status_any(
        count: c_int, array_of_requests: List<MPI_Request>, indx: Out<c_int>, flag: Out<c_int>, status: Out<Status>,
    ) {
        let handles = active(&array_of_requests.to_vec(count.into())?)?;
        let done = test_some(&handles)?;
        flag.put((handles.is_empty() || !done.is_empty()).into())?;
        indx.put(done.first().map_or(UNDEFINED, |&i| i as c_int))?;
        match handles.iter().find(|(i, _)| done.first() == Some(i)) {
            Some((_, handle)) => status.fill(&look(&anyone()?, *handle)?.status),
            None => status.put_wanted(Status::EMPTY),
        }
    }

    fn PMPI_Request_get_status_all(
        count: c_int, array_of_requests: List<MPI_Request>, flag: Out<c_int>, array_of_statuses: OutList<Status>,
    ) {
        let all = array_of_requests.to_vec(count.into())?;
        let handles = active(&all)?;
        let done = test_some(&handles)?.len() == handles.len();
        flag.put(done.into())?;
        if !done {
            return Ok(());
        }
        for (i, handle) in all.into_iter().enumerate() {
            let known = handles.iter().any(|(at, _)| *at == i);
            let told = if known { with_error(&look(&anyone()?, handle)?) } else { Status::EMPTY };
            array_of_statuses.at(i).put_wanted(told);
        }
    }

    fn PMPI_Request_get_status_some(
        incount: c_int, array_of_requests: List<MPI_Request>, outcount: Out<c_int>, array_of_indices: OutList<c_int>,
        array_of_statuses: OutList<Status>,
    ) {
        let handles = active(&array_of_requests.to_vec(incount.into())?)?;
        if handles.is_empty() {
            outcount.put(UNDEFINED)?;
            return Ok(());
        }
        let done = test_some(&handles)?;
        outcount.put(done.len() as c_int)?;
        let ended = handles.iter().filter(|(i, _)| done.contains(i));
        for (n, (i, handle)) in ended.enumerate() {
            array_of_indices.at(n).put(*i as c_int)?;
            array_of_statuses.at(n).put_wanted(with_error(&look(&anyone()?, *handle)?));
        }
    }

    fn PMPI_Grequest_start(
        query_fn: Callback, free_fn: Callback, cancel_fn: Callback, extra_state: Memory, request: Out<MPI_Request>,
    ) {
        let general = std::sync::Arc::new(General::new(query_fn, free_fn, cancel_fn, extra_state.address()));
        let handle = anyone()?.net.with(|_, layer| layer.requests.add_general(general))?;
        request.put(MPI_Request(handle))?
    }

    fn PMPI_Grequest_complete(request: MPI_Request) {
        let general = anyone()?.net.with(|_, layer| {
            layer.requests.check(&layer.tagged, request.0)?;
            Ok::<_, Error>(layer.requests.general(request.0))
        })??;
        let general = general.ok_or_else(|| Error::new(Class::Request, "it is not a generalized request"))?;
        general.complete();
        if general.is_let_go() {
            anyone()?.net.with(|_, layer| layer.requests.free(&mut layer.tagged, request.0))??;
            return succeeded(general.forget());
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
        if let Some(general) = general(handle)? {
            return succeeded(general.cancel());
        }
        anyone()?.net.with(|endpoint, layer| layer.requests.cancel(endpoint, &mut layer.tagged, handle.0))??
    }

    fn PMPI_Request_free(request: Out<MPI_Request>) {
        let handle = request.get()?;
        let general = general(handle)?;
        if let Some(general) = general.as_ref().filter(|general| !general.is_done()) {
            general.let_go();
            return Ok(request.put(MPI_Request::NULL)?);
        }
        anyone()?.net.with(|_, layer| layer.requests.free(&mut layer.tagged, handle.0))??;
        request.put(MPI_Request::NULL)?;
        if let Some(general) = general {
            return succeeded(general.forget());
        }
    }
}

/// Requests of an array that can end, with their places in it.
type Handles = Vec<(usize, MPI_Request)>;

fn entries(count: c_int) -> Result<usize> {
    usize::try_from(count).map_err(|_| Error::new(Class::Count, format!("an array has {count} entries")))
}

fn check(anyone: &CommRef, handle: MPI_Request) -> Result<()> {
    anyone.net.with(|_, layer| layer.requests.check(&layer.tagged, handle.0))?
}

fn is_done(anyone: &CommRef, handle: MPI_Request) -> Result<bool> {
    let done = |layer: &Layer| layer.requests.is_done(&layer.tagged, handle.0);
    if anyone.net.with(|_, layer| done(layer))? {
        return Ok(true);
    }
    anyone.net.poll_until(done)?;
    anyone.net.with(|_, layer| done(layer))
}

/// Completes requests that have ended, and null ones, as long as there is nothing special about them; says where it stopped.
fn collect_plain(
    anyone: &CommRef,
    places: Range<usize>,
    requests: OutList<MPI_Request>,
    statuses: OutList<Status>,
) -> Result<usize> {
    anyone.net.with(|endpoint, layer| {
        endpoint.flush();
        // Who wants no statuses is spared the making of them.
        match statuses.is_missing() {
            true => replace_ended(layer, places, requests, |_, _| ()),
            false => replace_ended(layer, places, requests, |i, status| statuses.at(i).put_wanted(status)),
        }
    })?
}

#[inline(always)]
fn replace_ended(
    layer: &mut Layer,
    places: Range<usize>,
    requests: OutList<MPI_Request>,
    tell: impl Fn(usize, Status),
) -> Result<usize> {
    requests.replace_while(places, |i, handle| {
        let status = match handle {
            MPI_Request::NULL => Status::EMPTY,
            handle => layer.requests.complete_plainly(&mut layer.tagged, handle.0)?,
        };
        tell(i, status);
        Some(MPI_Request::NULL)
    })
}

/// Waits for a request. The usual one is then forgotten and this is its status; any other is to be completed.
#[inline]
fn wait(anyone: &CommRef, handle: MPI_Request) -> Result<Option<Status>> {
    let on = |layer: &Layer| layer.requests.awaited(&layer.tagged, handle.0);
    let done = |layer: &mut Layer| layer.requests.is_done(&layer.tagged, handle.0);
    let plain = |layer: &mut Layer| layer.requests.complete_plainly(&mut layer.tagged, handle.0);
    anyone.net.wait_then("a request", on, done, plain)
}

#[inline]
fn complete(anyone: &CommRef, handle: MPI_Request) -> Result<Completion> {
    let mut done = anyone.net.with(|_, layer| layer.requests.complete(&mut layer.tagged, handle.0))??;
    if let Some(general) = done.general.take() {
        done.outcome = asked(&general);
        let code = general.forget();
        if done.outcome.error.is_none() {
            done.outcome.error = refused(code);
        }
    }
    Ok(done)
}

/// The outcome of a request that is done, which stays.
fn look(anyone: &CommRef, handle: MPI_Request) -> Result<Outcome> {
    match general(handle)? {
        Some(general) => Ok(asked(&general)),
        None => anyone.net.with(|_, layer| layer.requests.settle(&mut layer.tagged, handle.0))?,
    }
}

fn general(handle: MPI_Request) -> Result<Option<std::sync::Arc<General>>> {
    anyone()?.net.with(|_, layer| layer.requests.general(handle.0))
}

#[cold]
fn asked(general: &General) -> Outcome {
    let (status, code) = general.status();
    Outcome { status, error: refused(code) }
}

/// The error behind a code that one of the program's functions returned.
fn refused(code: c_int) -> Option<Error> {
    let class = Class::from_value(code).unwrap_or(Class::Other);
    (code != 0).then(|| Error::new(class, format!("the program's own function returned {code}")))
}

fn succeeded(code: c_int) -> Result<(), Fault> {
    if code == 0 { Ok(()) } else { Err(Fault::Code(code)) }
}

/// Tells the program of one request that has ended.
#[inline]
fn finish(done: Completion, request: Out<MPI_Request>, status: Out<Status>) -> Result<(), Fault> {
    if !done.stays {
        request.put(MPI_Request::NULL)?;
    }
    status.fill(&done.outcome.status);
    match done.outcome.error {
        Some(error) => Err(Fault::Of(done.comm.into(), error)),
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
            Err(Fault::Of(comm.into(), Error::new(Class::InStatus, "a request failed; its status says how")))
        }
        None => Ok(()),
    }
}

/// The requests of an array that are neither null nor waiting to be started.
fn active(all: &[MPI_Request]) -> Result<Handles> {
    let anyone = anyone()?;
    let mut active = Vec::new();
    for (i, &handle) in all.iter().enumerate().filter(|(_, handle)| **handle != MPI_Request::NULL) {
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
    let has_ended = |layer: &Layer, handle: MPI_Request| layer.requests.is_done(&layer.tagged, handle.0);
    anyone.net.poll_until(|layer| handles.iter().any(|&(_, handle)| has_ended(layer, handle)))?;
    anyone.net.with(|_, layer| {
        handles.iter().filter(|&&(_, handle)| has_ended(layer, handle)).map(|&(i, _)| i).collect()
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
    let net = &anyone()?.net;
    let again = net.with(|endpoint, layer| layer.requests.start(endpoint, &mut layer.tagged, handle.0))??;
    if let Some(again) = again {
        let task = net.tasks.add(again());
        net.with(|_, layer| layer.requests.started(handle.0, task))??;
        net.tasks.run(net);
    }
    Ok(())
}
