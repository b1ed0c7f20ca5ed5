//! What is shown, and what is written.

use std::sync::{Arc, Mutex};

use super::*;

/// A stream that can be looked into.
#[derive(Clone, Default)]
pub(crate) struct Shared(pub(crate) Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn logger(folder: &Path, look: Look) -> (RunLogger, Shared) {
    let out = Shared::default();
    let new = RunLogger::new(folder, &["loss", "val <&>"], 10).unwrap();
    (RunLogger { look, out: Box::new(out.clone()), ..new }, out)
}

fn fill(logger: &mut RunLogger, steps: std::ops::Range<u64>) {
    for step in steps {
        let loss = 4.0 / (step + 1) as f64;
        match step % 10 {
            9 => logger.log(step, &[("loss", loss), ("val <&>", loss * 1.5), ("other", 1.0)]),
            _ => logger.log(step, &[("loss", loss)]),
        }
    }
}

fn text(out: &Shared) -> String {
    String::from_utf8(out.0.lock().unwrap().clone()).unwrap()
}

#[test]
fn lines_where_there_is_no_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let (mut log, out) = logger(folder.path(), Look::Lines);
    fill(&mut log, 0..20);
    assert_eq!(
        text(&out),
        "step 9  loss 0.4000  val <&> 0.6000\nstep 19  loss 0.2000  val <&> 0.3000\n"
    );
}

#[test]
fn a_chart_is_drawn_over_itself() {
    let folder = tempfile::tempdir().unwrap();
    let (mut log, out) = logger(folder.path(), Look::Chart { colors: false });
    fill(&mut log, 0..10);
    let first = text(&out);
    assert_eq!(first.lines().count(), HEIGHT_AND_LEGEND);
    assert!(first.starts_with("    4.0000 |*\n") && first.contains("* loss 0.4000"), "{first}");
    assert!(!first.contains('\x1b'));
    fill(&mut log, 10..20);
    assert!(text(&out)[first.len()..].starts_with(&format!("\x1b[{HEIGHT_AND_LEGEND}A\x1b[J")));
    // No value, or one that is not finite, is no reason to stop.
    let (mut log, out) = logger(folder.path(), Look::Chart { colors: true });
    (0..10).for_each(|step| log.log(step, &[("loss", f64::NAN)]));
    (10..20)
        .for_each(|step| log.log(step, &[("loss", if step < 15 { 1.0 } else { f64::INFINITY })]));
    assert!(text(&out).contains("\x1b[36m*\x1b[0m"));
}

const HEIGHT_AND_LEGEND: usize = 15;

#[test]
fn files_and_going_on() {
    let folder = tempfile::tempdir().unwrap();
    let (mut whole, _) = logger(folder.path(), Look::Lines);
    fill(&mut whole, 0..30);
    let (mut first, _) = logger(folder.path(), Look::Lines);
    fill(&mut first, 0..17);
    let (mut second, _) = logger(folder.path(), Look::Lines);
    second.load_state_dict(&first.state_dict().unwrap()).unwrap();
    fill(&mut second, 17..30);
    second.finish().unwrap();
    let table = csv::load(folder.path().join("run.csv"), csv::Header::Yes).unwrap();
    assert_eq!(table.columns, ["step", "loss", "val <&>"]);
    let bits = |t: &HostTensor| {
        t.to_f64().iter().map(|v| if v.is_nan() { 0 } else { v.to_bits() }).collect::<Vec<_>>()
    };
    assert_eq!(bits(&table.values), bits(&whole.points().unwrap()));
    let svg = std::fs::read_to_string(folder.path().join("run.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.matches("<polyline").count() >= 2, "{svg}");
    assert!(!svg.contains("val <&>"), "names are escaped");
    assert!(!svg.contains(&format!("height=\"{}\"", 2 * 320)), "similar values have one panel");
    // A learning rate has an axis of its own.
    let mut log = RunLogger::new(folder.path(), &["loss", "rate", "train"], 10).unwrap();
    (0..9).for_each(|i| log.log(i, &[("loss", 2.0), ("rate", 1e-3), ("train", 0.5)]));
    log.finish().unwrap();
    let svg = std::fs::read_to_string(folder.path().join("run.svg")).unwrap();
    assert!(svg.contains("height=\"640\"") && svg.matches("<polyline").count() >= 3, "{svg}");
    // One point, and none.
    let (mut one, _) = logger(folder.path(), Look::Lines);
    one.log(3, &[("loss", 1.0)]);
    one.finish().unwrap();
    logger(folder.path(), Look::Lines).0.finish().unwrap();
}

/// Keeps what it is told, and fails from a step on.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<String>>>, Option<u64>);

impl Tracker for Kept {
    fn scalars(&mut self, step: u64, values: &[(&str, f64)]) -> Result<()> {
        if self.1.is_some_and(|bad| step >= bad) {
            return Err(data_error(format!("no room for step {step}")));
        }
        self.0.lock().unwrap().push(format!("{step} {values:?}"));
        Ok(())
    }
    fn image(&mut self, step: u64, name: &str, image: &HostTensor) -> Result<()> {
        self.0.lock().unwrap().push(format!("{step} {name} {}", image.ty()));
        Ok(())
    }
}

#[test]
fn other_trackers_are_told_the_same_and_their_errors_come_out() {
    let folder = tempfile::tempdir().unwrap();
    let (kept, full) = (Kept::default(), Kept(Arc::default(), Some(2)));
    let log = logger(folder.path(), Look::Lines).0.also(kept.clone());
    let mut log = log.also(TensorBoard::new(folder.path()).unwrap()).also(full.clone());
    log.log(0, &[("loss", 1.0), ("lr", 0.5)]);
    log.image(0, "digit", &HostTensor::scalar(0_u8)).unwrap_err();
    log.histogram(0, "digit", &HostTensor::scalar(0_u8)).unwrap();
    log.log(2, &[("loss", 0.5)]);
    log.log(3, &[("loss", 0.25)]);
    let error = log.save().unwrap_err();
    assert_eq!(error.message(), "no room for step 2");
    log.save().unwrap();
    let told = kept.0.lock().unwrap().clone();
    assert_eq!(told[..2], ["0 [(\"loss\", 1.0), (\"lr\", 0.5)]", "0 digit u8[]"]);
    assert_eq!((told.len(), full.0.lock().unwrap().len()), (4, 2));
    assert!(folder.path().join("run.svg").exists());
}
