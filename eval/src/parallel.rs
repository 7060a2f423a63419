//! Runs independent steps on all cores. After the first error no step starts; running steps end, and that error is
//! returned.

use anyhow::Result;
use std::num::NonZero;
use std::sync::Mutex;

/// Calls `work` for each item, as many at once as there are cores.
pub fn for_each<T: Send>(items: Vec<T>, work: impl Fn(T) -> Result<()> + Sync) -> Result<()> {
    let workers = std::thread::available_parallelism().map_or(1, NonZero::get);
    let queue = Mutex::new(items.into_iter());
    let next = || queue.lock().map(|mut queue| queue.next()).unwrap_or(None);
    let failure = Mutex::new(None);
    let failed = || failure.lock().map(|slot| slot.is_some()).unwrap_or(true);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while !failed() {
                    let Some(item) = next() else { return };
                    if let Err(error) = work(item)
                        && let Ok(mut slot) = failure.lock()
                    {
                        slot.get_or_insert(error);
                    }
                }
            });
        }
    });
    match failure.into_inner() {
        Ok(None) => Ok(()),
        Ok(Some(error)) => Err(error),
        Err(_) => anyhow::bail!("a parallel step panicked"),
    }
}

#[cfg(test)]
mod tests {
    use super::for_each;
    use std::sync::Mutex;

    #[test]
    fn every_item_is_worked_on_once() {
        let seen = Mutex::new(Vec::new());
        for_each((0..100).collect(), |item: u32| {
            seen.lock().expect("lock").push(item);
            Ok(())
        })
        .expect("no step fails");
        let mut seen = seen.into_inner().expect("lock");
        seen.sort_unstable();
        assert_eq!(seen, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn an_error_ends_the_row() {
        let even = |item: u32| if item.is_multiple_of(2) { Ok(()) } else { anyhow::bail!("{item} is odd") };
        let error = for_each(vec![1, 2, 3], even).expect_err("1 is odd");
        assert!(error.to_string().contains("odd"));
    }
}
