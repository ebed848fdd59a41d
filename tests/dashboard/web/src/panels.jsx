// Draws the kinds of panels with Grafana's own components, and notes of each what is seen in it.
import React from 'react';
import { dateTime, formattedValueToString, getFieldDisplayName, getFieldDisplayValues } from '@grafana/data';
import { BigValue, TimeSeries, VizRepeater, useTheme2 } from '@grafana/ui';
import { TableNG } from '@grafana/ui/unstable';
import { withVariables } from './queries';

export const TIME_ZONE = 'utc';

/** The y axis is noted as the texts of its ticks. */
function TimeSeriesPanel({ panel, frames, view, note, width, height }) {
  const range = { from: dateTime(view.from * 1000), to: dateTime(view.to * 1000) };
  return (
    <TimeSeries
      frames={frames}
      timeRange={{ ...range, raw: range }}
      timeZone={TIME_ZONE}
      width={width}
      height={height}
      legend={panel.options.legend}
      options={panel.options}
    >
      {(builder) => {
        builder.addHook('draw', (plot) => {
          note.ticks = plot.axes[1]._values.filter(Boolean);
        });
        return null;
      }}
    </TimeSeries>
  );
}

/** The big values are noted with their colours. */
function StatPanel({ panel, frames, view, note, width, height }) {
  const theme = useTheme2();
  const { options } = panel;
  const values = getFieldDisplayValues({
    fieldConfig: panel.fieldConfig,
    reduceOptions: options.reduceOptions,
    data: frames,
    theme,
    replaceVariables: (text) => withVariables(text, view.variables),
    timeZone: TIME_ZONE,
    sparkline: options.graphMode !== 'none',
  });
  note.values = values.map(({ display }) => ({ text: formattedValueToString(display), title: display.title, color: display.color }));
  return (
    <VizRepeater
      source={frames}
      getValues={() => values}
      width={width}
      height={height}
      orientation={options.orientation}
      renderValue={({ value, width: each, height: high, count }) => (
        <BigValue
          value={value.display}
          sparkline={value.sparkline}
          count={count}
          theme={theme}
          width={each}
          height={high}
          colorMode={options.colorMode}
          graphMode={options.graphMode}
          justifyMode={options.justifyMode}
          textMode={options.textMode}
        />
      )}
    />
  );
}

/** The names of the columns and the number of rows are noted. */
function TablePanel({ panel, frames: [frame], note, width, height }) {
  note.columns = frame.fields.map((field) => getFieldDisplayName(field, frame, [frame]));
  note.rows = frame.length;
  return (
    <TableNG
      data={frame}
      width={width}
      height={height}
      noHeader={!panel.options.showHeader}
      cellHeight={panel.options.cellHeight}
      sortBy={panel.options.sortBy}
      fieldConfig={panel.fieldConfig}
      structureRev={1}
    />
  );
}

export const KINDS = { timeseries: TimeSeriesPanel, stat: StatPanel, table: TablePanel };
