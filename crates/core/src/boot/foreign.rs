//! Launchers of others: seen in the environment, but not understood.

use barewire_sys::pmix::PmixError;

use super::{BootError, Environment};

/// The launcher that started this process together with others, if we cannot speak with it.
pub(super) fn visible(environment: &Environment) -> Option<BootError> {
    let launcher = LAUNCHERS.iter().find(|launcher| launcher.started(environment))?;
    Some(BootError::Unspeakable { launcher: launcher.name, advice: launcher.advice.to_owned() })
}

/// A PMIx launcher whose library is not here cannot be spoken to, and is named; any other error stays as it is.
pub(super) fn without_library(environment: &Environment, error: BootError) -> BootError {
    let BootError::PmixCall { error: PmixError::NoLibrary { .. } } = &error else { return error };
    let launcher = LAUNCHERS.iter().find(|launcher| environment.get(launcher.mark).is_some());
    let name = launcher.map_or("a PMIx launcher", |launcher| launcher.name);
    let advice = format!(
        "{error}; install it (Debian: libpmix2) or add its directory to LD_LIBRARY_PATH, or {USE_OURS}"
    );
    BootError::Unspeakable { launcher: name, advice }
}

/// How a launcher shows itself.
struct Launcher {
    name: &'static str,
    /// A variable it sets in every process.
    mark: &'static str,
    /// Where it says how many there are; started alone, a process needs nobody. Empty: it does not say.
    size: &'static str,
    advice: &'static str,
}

impl Launcher {
    fn started(&self, environment: &Environment) -> bool {
        environment.get(self.mark).is_some() && environment.get(self.size) != Some("1")
    }
}

const USE_OURS: &str = "start it with `barewire run -n N program`";

/// More telling marks come first.
const LAUNCHERS: &[Launcher] = &[
    Launcher {
        name: "Open MPI's mpirun (PRRTE)",
        mark: "OMPI_COMM_WORLD_RANK",
        size: "OMPI_COMM_WORLD_SIZE",
        advice: USE_OURS,
    },
    Launcher {
        name: "Slurm's srun without PMI",
        mark: "SLURM_STEP_ID",
        size: "SLURM_STEP_NUM_TASKS",
        advice: "use `srun --mpi=pmi2`, or run `barewire run` inside the allocation",
    },
    Launcher { name: "a PMIx launcher", mark: "PMIX_RANK", size: "", advice: USE_OURS },
    Launcher {
        name: "a PMI-1 launcher that offers a port only (PMI_PORT)",
        mark: "PMI_PORT",
        size: "PMI_SIZE",
        advice: "start it without -pmi-port, or with `barewire run -n N program`",
    },
    Launcher {
        name: "a PMI launcher that left no connection (PMI_RANK is set, PMI_FD is not)",
        mark: "PMI_RANK",
        size: "PMI_SIZE",
        advice: USE_OURS,
    },
    Launcher {
        name: "MVAPICH2's mpirun_rsh",
        mark: "MV2_COMM_WORLD_RANK",
        size: "MV2_COMM_WORLD_SIZE",
        advice: USE_OURS,
    },
    Launcher { name: "PALS mpiexec", mark: "PALS_RANKID", size: "", advice: USE_OURS },
    Launcher { name: "Cray aprun", mark: "ALPS_APP_PE", size: "", advice: USE_OURS },
    Launcher { name: "IBM jsrun", mark: "JSM_NAMESPACE_RANK", size: "JSM_NAMESPACE_SIZE", advice: USE_OURS },
    Launcher { name: "Flux", mark: "FLUX_TASK_RANK", size: "FLUX_JOB_SIZE", advice: USE_OURS },
    Launcher { name: "Torque's pbsdsh", mark: "PBS_TASKNUM", size: "", advice: USE_OURS },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(pairs: &[(&str, &str)]) -> Option<String> {
        let pairs = pairs.iter().map(|(k, v)| (k.to_string(), v.to_string()));
        visible(&Environment::from_pairs(pairs).unwrap()).map(|error| error.to_string())
    }

    #[test]
    fn a_foreign_launcher_is_refused_by_name() {
        let text = seen(&[("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "4"), ("PMIX_RANK", "1")])
            .unwrap();
        assert!(text.contains("Open MPI"), "{text}");
        let text = seen(&[("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "4")]).unwrap();
        assert!(text.contains("srun --mpi=pmi2"), "{text}");
    }

    #[test]
    fn a_process_started_alone_needs_nobody() {
        assert_eq!(seen(&[("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "1")]), None);
        assert_eq!(seen(&[("SLURM_JOB_ID", "7"), ("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8")]), None);
    }
}
