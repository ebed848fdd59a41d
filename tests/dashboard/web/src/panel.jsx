// One panel: asks for its data, gives it units, colours and names, and draws it in Grafana's frame of a panel.
import React, { Component, useEffect, useState } from 'react';
import { FieldType, applyFieldOverrides, formattedValueToString, getFieldDisplayName, transformDataFrame } from '@grafana/data';
import { PanelChrome, useTheme2 } from '@grafana/ui';
import { lastValueFrom } from 'rxjs';
import { registryFor } from './options';
import { KINDS, TIME_ZONE } from './panels';
import { framesOf, withVariables } from './queries';

/** Draws a panel. `note` becomes what is seen in it; `done` is called once it is drawn or has failed. */
export function Panel({ panel, view, note, done, width, height }) {
  const theme = useTheme2();
  const [frames, setFrames] = useState(null);
  const [error, setError] = useState('');
  useEffect(() => {
    dataOf(panel, view, theme, width).then(
      (found) => {
        note.blank = !hasValues(found);
        note.series = seriesOf(found);
        if (panel.type !== 'stat' && found.every((frame) => !frame.length)) {
          note.message = panel.fieldConfig.defaults.noValue ?? 'No data';
        }
        setFrames(found);
      },
      (failure) => {
        note.error = String(failure);
        setError(note.error);
      }
    );
  }, []);
  useEffect(() => {
    if (frames || error) {
      done();
    }
  }, [frames, error]);
  const Kind = KINDS[panel.type];
  const shown = (innerWidth, innerHeight) =>
    note.message ? (
      <div className="message">{note.message}</div>
    ) : (
      <Kind panel={panel} frames={frames} view={view} note={note} width={innerWidth} height={innerHeight} />
    );
  return (
    <PanelChrome title={panel.title} description={panel.description} width={width} height={height} statusMessage={error || undefined}>
      {(innerWidth, innerHeight) => <Boundary note={note}>{frames && shown(innerWidth, innerHeight)}</Boundary>}
    </PanelChrome>
  );
}

async function dataOf(panel, view, theme, width) {
  const replaceVariables = (text) => withVariables(text, view.variables);
  const answers = await Promise.all(panel.targets.map((target) => framesOf(target, view, width)));
  const transformed = transformDataFrame(panel.transformations ?? [], answers.flat(), { interpolate: replaceVariables });
  return applyFieldOverrides({
    data: await lastValueFrom(transformed),
    fieldConfig: panel.fieldConfig,
    fieldConfigRegistry: registryFor(panel.fieldConfig),
    replaceVariables,
    theme,
    timeZone: TIME_ZONE,
  });
}

/** Tells whether anything but times is in the frames. */
function hasValues(frames) {
  const shown = frames.flatMap((frame) => frame.fields).filter((field) => field.type !== FieldType.time);
  return shown.some((field) => field.values.some((value) => value !== null));
}

/** Returns the names of all series, and their last values as texts with units. */
function seriesOf(frames) {
  return frames.flatMap((frame) =>
    frame.fields
      .filter((field) => field.type === FieldType.number)
      .map((field) => ({
        name: getFieldDisplayName(field, frame, frames),
        last: formattedValueToString(field.display(field.values.findLast((value) => value !== null) ?? null)),
      }))
  );
}

class Boundary extends Component {
  state = { error: '' };

  static getDerivedStateFromError(error) {
    return { error: String(error) };
  }

  componentDidCatch(error) {
    this.props.note.error = String(error);
  }

  render() {
    return this.state.error || this.props.children;
  }
}
